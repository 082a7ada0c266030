# SPDX-License-Identifier: Apache-2.0
"""Volumes from the request to the file: the ledger, the REST API and the storage always agree."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.clients import Clients
from tests.functional.conftest import Deploy
from tests.functional.deployment import GIB, Deployment
from tests.servers.base import wait_for

BACKENDS: dict[str, dict[str, Any]] = {
    "thin": {"filesystem_size_limit_gb": 4, "max_over_subscription_ratio": 2.0},
    "thick": {"filesystem_size_limit_gb": 4, "filesystem_provisioning": "thick", "reserved_percentage": 25},
    "both": {"filesystem_size_limit_gb": 6, "filesystem_provisioning": "both", "max_over_subscription_ratio": 1.5},
}


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS) as deployment:
        deployment.start()
        deployment.rest.create_type("thin", volume_backend_name="thin")
        deployment.rest.create_type(
            "thick", volume_backend_name="thick", provisioning__type="thick", thick_provisioning_support="<is> True"
        )
        deployment.rest.create_type("solid", provisioning__type="thick", thick_provisioning_support="<is> True")
        yield deployment


def allocated(tonnage: Deployment, backend: str) -> tuple[int, int]:
    """Return the allocated GiB of the pool and of its backend, read with plain SQL."""
    return (
        int(tonnage.sql_value(f"SELECT allocated_capacity_gb FROM pools WHERE name = '{tonnage.pool(backend)}'")),
        int(tonnage.sql_value(f"SELECT allocated_capacity_gb FROM backends WHERE name = '{tonnage.host}@{backend}'")),
    )


def check_size(tonnage: Deployment, backend: str, size: int) -> None:
    """Assert that get_pools, the ledger and the storage show volumes of ``size`` GiB in all in the backend."""
    keys = ("allocated_capacity_gb", "provisioned_capacity_gb", "in_flight_capacity_gb")

    def is_shown() -> bool:
        capabilities = tonnage.rest.pools()[tonnage.pool(backend)]
        return [capabilities[key] for key in keys] == [size, size, 0]

    wait_for(is_shown, f"get_pools shows {size} GiB on {backend}")
    assert allocated(tonnage, backend) == (size, size)
    tonnage.check_at_rest()


def test_a_volume_is_created_extended_and_deleted(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("thin")
    check_size(tonnage, "thin", 0)
    answer = rest.request_volume(2, "thin")
    assert answer.status_code == 202
    assert answer.json()["volume"]["status"] in ("creating", "available")
    volume = rest.wait_until_available(answer.json()["volume"]["id"])
    assert (volume["size"], volume["os-vol-host-attr:host"]) == (2, pool)
    file = tonnage.files("thin")[volume["id"]]
    assert (file.st_size, file.st_blocks) == (2 * GIB, 0)
    check_size(tonnage, "thin", 2)

    assert rest.extend(volume["id"], 3).status_code == 202
    assert rest.wait_until_available(volume["id"])["size"] == 3
    assert tonnage.files("thin")[volume["id"]].st_size == 3 * GIB
    check_size(tonnage, "thin", 3)

    rest.delete(volume["id"])
    assert tonnage.files("thin") == {}
    check_size(tonnage, "thin", 0)


@pytest.mark.parametrize("deploy", ["postgresql"], indirect=True, scope="module")
def test_clients_create_and_delete_a_volume(tonnage: Deployment, tmp_path: pathlib.Path) -> None:
    """``test_clients_everywhere.py`` runs all commands against each deployment."""
    with Clients(tonnage.rest.url, tmp_path) as clients:
        assert len(clients.openstack("volume", "backend", "pool", "list", "--long")) == len(BACKENDS)
        volume = clients.openstack("volume", "create", "--size", "2", "--type", "thin", "by-command")
        tonnage.rest.wait_until_available(volume["id"])
        check_size(tonnage, "thin", 2)
        assert clients.cinder("list")[volume["id"]] == "available"
        clients.openstack("volume", "delete", "by-command", "--quiet-command")
        wait_for(lambda: tonnage.files("thin") == {}, "the volume is deleted")
    check_size(tonnage, "thin", 0)


def test_a_volume_without_a_type_goes_to_the_pool_with_the_most_capacity(tonnage: Deployment) -> None:
    volume = tonnage.rest.wait_until_available(tonnage.rest.create(1))
    assert volume["os-vol-host-attr:host"] == tonnage.pool("both")
    assert tonnage.files("both")[volume["id"]].st_blocks == 0, "the volume is not thin"
    tonnage.rest.delete(volume["id"])


def test_thick_headroom_is_exact_and_a_thick_volume_has_its_blocks(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("thick")
    wait_for(lambda: rest.headroom(pool, "thick") == 3, "the headroom is 4 GiB less a reserve of 1")
    first = rest.wait_until_available(rest.create(1, "thick"))
    blocks = tonnage.files("thick")[first["id"]].st_blocks * 512
    assert GIB <= blocks < GIB + GIB // 64
    wait_for(lambda: rest.headroom(pool, "thick") == 2, "the headroom falls")

    refusal = rest.refusal(3, "thick")
    assert re.fullmatch(
        r"No pool for 3 GiB thick 'thick': 3 pools; CapabilitiesFilter refused 2; "
        rf"CapacityFilter refused 1, nearest {pool} has headroom 2\.00 GiB "
        # The volume is in flight until the next report reduces the free capacity.
        r"\(total 4, free (3, in flight 0|4, in flight 1), shared room [\d.]+, reserved 25 %, thick\)",
        refusal["message"],
    )
    rejection = refusal["refusal"]["nearest"]["rejection"]
    assert (rejection["code"], rejection["numbers"]["headroom"], rejection["numbers"]["size"]) == ("no_capacity", 2, 3)

    second = rest.wait_until_available(rest.create(2, "thick"))
    wait_for(lambda: rest.headroom(pool, "thick") == 0, "no headroom is left")
    assert "headroom 0.00 GiB" in rest.refusal(1, "thick")["message"]
    rest.delete(first["id"], second["id"])
    wait_for(lambda: rest.headroom(pool, "thick") == 3, "the headroom is as before")
    check_size(tonnage, "thick", 0)


def test_thin_headroom_is_exact(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("thin")
    assert rest.headroom(pool, "thin") == 8
    message = rest.refusal(9, "thin")["message"]
    for word in ("9 GiB", "'thin'", "CapacityFilter", pool, "headroom 8.00 GiB", "total 4", "ratio 2.0", "cinder"):
        assert word in message
    volume = rest.wait_until_available(rest.create(8, "thin"))
    wait_for(lambda: rest.headroom(pool, "thin") == 0, "no headroom is left")
    assert rest.extend(volume["id"], 9).status_code == 409
    assert rest.volume(volume["id"])["size"] == 8
    rest.delete(volume["id"])
    check_size(tonnage, "thin", 0)


def test_a_thick_volume_reduces_both_headrooms_of_a_pool_for_both_kinds(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("both")
    assert (rest.headroom(pool, "thin"), rest.headroom(pool, "thick")) == (9, 6)
    volume = rest.wait_until_available(rest.create(2, "solid"))
    assert volume["os-vol-host-attr:host"] == pool
    assert tonnage.files("both")[volume["id"]].st_blocks * 512 >= 2 * GIB
    wait_for(lambda: (rest.headroom(pool, "thin"), rest.headroom(pool, "thick")) == (6, 4), "both headrooms fall")
    rest.delete(volume["id"])
    check_size(tonnage, "both", 0)


def test_foreign_files_are_provisioned_but_not_allocated(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("thin")
    foreign = tonnage.path("thin") / "foreign"
    with foreign.open("wb") as file:
        file.truncate(5 * GIB)
    wait_for(lambda: rest.headroom(pool, "thin") == 3, "the file counts")
    capabilities = rest.pools()[pool]
    assert (capabilities["provisioned_capacity_gb"], capabilities["allocated_capacity_gb"]) == (5, 0)
    foreign.unlink()
    wait_for(lambda: rest.headroom(pool, "thin") == 8, "the file no longer counts")
