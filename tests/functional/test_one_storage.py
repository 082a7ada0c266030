# SPDX-License-Identifier: Apache-2.0
"""Two backends with the same storage: their volumes together fill it exactly."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment, run_concurrently
from tests.servers.base import wait_for

SIZE = 60
BOTH = ("one", "two")


@pytest.fixture
def tonnage(deploy: Deploy, tmp_path: pathlib.Path) -> Iterator[Deployment]:
    options = {
        "volume_driver": "memory",
        "memory_storage_id": "array 7",
        "memory_state_file": tmp_path / "array.json",
        "memory_pool_size_gb": SIZE,
        "memory_provisioning": "thick",
        "memory_latency": 0.05,
        "memory_pools": "p",
    }
    with deploy(dict.fromkeys(BOTH, options)) as deployment:
        deployment.start()
        yield deployment


@on_one_database
def test_two_backends_fill_a_shared_storage_exactly(tonnage: Deployment) -> None:
    run_concurrently(16, lambda _: [tonnage.rest.request_volume(1) for _ in range(6)])
    # A volume that one agent creates during the report of the other may count twice until the next report. The refusal
    # of a request is right then.
    wait_for(
        lambda: tonnage.rest.request_volume(1).status_code == 409 and len(tonnage.rest.volumes()) == SIZE,
        "the storage is full",
    )
    volumes = wait_for(lambda: settled(tonnage), "no volume is being created")
    assert [volume["status"] for volume in volumes] == ["available"] * SIZE
    assert {volume["os-vol-host-attr:host"] for volume in volumes} == {f"{tonnage.host}@{one}#p" for one in BOTH}
    assert tonnage.sql_value("SELECT SUM(allocated_capacity_gb) FROM pools") == SIZE

    def shown() -> bool:
        pools = tonnage.rest.pools().values()
        return all((pool["provisioned_capacity_gb"], pool["free_capacity_gb"]) == (SIZE, 0) for pool in pools)

    wait_for(shown, "both pools show the storage as full")
    assert "CapacityFilter refused 2" in tonnage.rest.refusal(1)["message"]
    tonnage.rest.delete(*(volume["id"] for volume in volumes[:5]))
    pools = [f"{tonnage.host}@{one}#p" for one in BOTH]
    wait_for(
        lambda: [tonnage.rest.headroom(pool, "thick") for pool in pools] == [5, 5], "both pools have 5 GiB of headroom"
    )


def settled(tonnage: Deployment) -> list[dict[str, Any]] | None:
    """Return the volumes, or None while one is being created."""
    volumes = tonnage.rest.volumes()
    return None if any(volume["status"] == "creating" for volume in volumes) else volumes
