# SPDX-License-Identifier: Apache-2.0
"""From a request to a file and back, with ledger, REST API and storage telling the same all the way."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.clients import Clients
from tests.functional.conftest import Deploy
from tests.functional.deployment import GIB, Deployment, until

BACKENDS: dict[str, dict[str, Any]] = {
    "thin": {"filesystem_size_limit_gb": 4, "max_over_subscription_ratio": 2.0},
    "thick": {"filesystem_size_limit_gb": 4, "filesystem_provisioning": "thick", "reserved_percentage": 25},
    "both": {"filesystem_size_limit_gb": 6, "filesystem_provisioning": "both", "max_over_subscription_ratio": 1.5},
}


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS) as deployment:
        deployment.start()
        deployment.rest.new_type("thin", volume_backend_name="thin")
        deployment.rest.new_type(
            "thick", volume_backend_name="thick", provisioning__type="thick", thick_provisioning_support="<is> True"
        )
        deployment.rest.new_type("solid", provisioning__type="thick", thick_provisioning_support="<is> True")
        yield deployment


def allocated(tonnage: Deployment, backend: str) -> tuple[int, int]:
    """Return what plain SQL says of the pool and of its backend."""
    return (
        int(tonnage.number(f"SELECT allocated_capacity_gb FROM pools WHERE name = '{tonnage.pool(backend)}'")),
        int(tonnage.number(f"SELECT allocated_capacity_gb FROM backends WHERE name = '{tonnage.host}@{backend}'")),
    )


def shows(tonnage: Deployment, backend: str, size: int) -> None:
    """Every place tells that the backend, empty otherwise, has volumes of that size in all."""
    keys = ("allocated_capacity_gb", "provisioned_capacity_gb", "in_flight_capacity_gb")

    def told() -> bool:
        capabilities = tonnage.rest.pools()[tonnage.pool(backend)]
        return [capabilities[key] for key in keys] == [size, size, 0]

    until(told, f"get_pools shows {size} GiB on {backend}")
    assert allocated(tonnage, backend) == (size, size)
    tonnage.check_at_rest()


def test_a_volume_is_made_grown_and_deleted(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("thin")
    shows(tonnage, "thin", 0)
    answer = rest.ask(2, "thin")
    assert answer.status_code == 202
    assert answer.json()["volume"]["status"] in ("creating", "available")
    volume = rest.made(answer.json()["volume"]["id"])
    assert (volume["size"], volume["os-vol-host-attr:host"]) == (2, pool)
    file = tonnage.files("thin")[volume["id"]]
    assert (file.st_size, file.st_blocks) == (2 * GIB, 0)
    shows(tonnage, "thin", 2)

    assert rest.extend(volume["id"], 3).status_code == 202
    assert rest.made(volume["id"])["size"] == 3
    assert tonnage.files("thin")[volume["id"]].st_size == 3 * GIB
    shows(tonnage, "thin", 3)

    rest.delete(volume["id"])
    assert tonnage.files("thin") == {}
    shows(tonnage, "thin", 0)


@pytest.mark.parametrize("deploy", ["postgresql"], indirect=True, scope="module")
def test_a_volume_is_made_and_deleted_by_commands(tonnage: Deployment, tmp_path: pathlib.Path) -> None:
    """All commands, wherever Tonnage runs: ``test_clients_everywhere.py``."""
    with Clients(tonnage.rest.root, tmp_path) as clients:
        assert len(clients.openstack("volume", "backend", "pool", "list", "--long")) == len(BACKENDS)
        volume = clients.openstack("volume", "create", "--size", "2", "--type", "thin", "by-command")
        tonnage.rest.made(volume["id"])
        shows(tonnage, "thin", 2)
        assert clients.cinder("list")[volume["id"]] == "available"
        clients.openstack("volume", "delete", "by-command", "--quiet-command")
        until(lambda: tonnage.files("thin") == {}, "it is deleted")
    shows(tonnage, "thin", 0)


def test_without_a_type_the_roomiest_pool_gets_it(tonnage: Deployment) -> None:
    volume = tonnage.rest.made(tonnage.rest.create(1))
    assert volume["os-vol-host-attr:host"] == tonnage.pool("both")
    assert tonnage.files("both")[volume["id"]].st_blocks == 0, "thin where it can be had"
    tonnage.rest.delete(volume["id"])


def test_a_thick_volume_takes_its_blocks_and_the_headroom_is_exact(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("thick")
    until(lambda: rest.headroom(pool, "thick") == 3, "4 GiB less a reserve of 1 are to be had")
    first = rest.made(rest.create(1, "thick"))
    blocks = tonnage.files("thick")[first["id"]].st_blocks * 512
    assert GIB <= blocks < GIB + GIB // 64
    until(lambda: rest.headroom(pool, "thick") == 2, "physical headroom falls")

    refusal = rest.refusal(3, "thick")
    assert re.fullmatch(
        r"No pool for 3 GiB thick 'thick': 3 pools; "
        rf"CapacityFilter refused 1, nearest {pool} has headroom 2\.00 GiB "
        # Before the next report it is in flight, after it the free capacity is less.
        r"\(total 4, free (3, in flight 0|4, in flight 1), shared room [\d.]+, reserved 25 %, thick\); "
        r"CapabilitiesFilter refused 2",
        refusal["message"],
    )
    rejection = refusal["refusal"]["nearest"]["rejection"]
    assert (rejection["code"], rejection["numbers"]["headroom"], rejection["numbers"]["size"]) == ("no_capacity", 2, 3)

    second = rest.made(rest.create(2, "thick"))
    until(lambda: rest.headroom(pool, "thick") == 0, "nothing is left")
    assert "headroom 0.00 GiB" in rest.refusal(1, "thick")["message"]
    rest.delete(first["id"], second["id"])
    until(lambda: rest.headroom(pool, "thick") == 3, "deleting brings all back")
    shows(tonnage, "thick", 0)


def test_thin_headroom_is_exact(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("thin")
    assert rest.headroom(pool, "thin") == 8
    message = rest.refusal(9, "thin")["message"]
    for word in ("9 GiB", "'thin'", "CapacityFilter", pool, "headroom 8.00 GiB", "total 4", "ratio 2.0", "cinder"):
        assert word in message
    volume = rest.made(rest.create(8, "thin"))
    until(lambda: rest.headroom(pool, "thin") == 0, "nothing is left")
    assert rest.extend(volume["id"], 9).status_code == 409
    assert rest.volume(volume["id"])["size"] == 8
    rest.delete(volume["id"])
    shows(tonnage, "thin", 0)


def test_thick_goes_where_thick_can_be_had_and_counts_for_thin_there(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("both")
    assert (rest.headroom(pool, "thin"), rest.headroom(pool, "thick")) == (9, 6)
    volume = rest.made(rest.create(2, "solid"))
    assert volume["os-vol-host-attr:host"] == pool
    assert tonnage.files("both")[volume["id"]].st_blocks * 512 >= 2 * GIB
    until(lambda: (rest.headroom(pool, "thin"), rest.headroom(pool, "thick")) == (6, 4), "both kinds of room fall")
    rest.delete(volume["id"])
    shows(tonnage, "both", 0)


def test_what_others_put_there_is_provisioned_but_not_allocated(tonnage: Deployment) -> None:
    rest, pool = tonnage.rest, tonnage.pool("thin")
    stranger = tonnage.path("thin") / "somebody-elses"
    with stranger.open("wb") as file:
        file.truncate(5 * GIB)
    until(lambda: rest.headroom(pool, "thin") == 3, "it is counted")
    capabilities = rest.pools()[pool]
    assert (capabilities["provisioned_capacity_gb"], capabilities["allocated_capacity_gb"]) == (5, 0)
    stranger.unlink()
    until(lambda: rest.headroom(pool, "thin") == 8, "it is counted no more")
