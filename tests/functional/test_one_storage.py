# SPDX-License-Identifier: Apache-2.0
"""Two backends whose agents look at one storage: together they get what it has, and no GiB more."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment, at_once, until

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
def test_a_storage_is_filled_exactly_from_two_sides(tonnage: Deployment) -> None:
    at_once(16, lambda _: [tonnage.rest.ask(1) for _ in range(6)])
    # What one agent makes while the other looks may count twice until the next report, and a refusal is right then.
    until(lambda: tonnage.rest.ask(1).status_code == 409 and len(tonnage.rest.volumes()) == SIZE, "full")
    volumes = until(lambda: settled(tonnage), "all volumes are made")
    assert [volume["status"] for volume in volumes] == ["available"] * SIZE
    assert {volume["os-vol-host-attr:host"] for volume in volumes} == {f"{tonnage.host}@{one}#p" for one in BOTH}
    assert tonnage.number("SELECT SUM(allocated_capacity_gb) FROM pools") == SIZE

    def shown() -> bool:
        pools = tonnage.rest.pools().values()
        return all((pool["provisioned_capacity_gb"], pool["free_capacity_gb"]) == (SIZE, 0) for pool in pools)

    until(shown, "both pools show the storage as full")
    assert "CapacityFilter refused 2" in tonnage.rest.refusal(1)["message"]
    tonnage.rest.delete(*(volume["id"] for volume in volumes[:5]))
    until(lambda: [tonnage.rest.headroom(f"{tonnage.host}@{one}#p", "thick") for one in BOTH] == [5, 5], "room for 5")


def settled(tonnage: Deployment) -> list[dict[str, Any]] | None:
    """Return the volumes once none is being made."""
    volumes = tonnage.rest.volumes()
    return None if any(volume["status"] == "creating" for volume in volumes) else volumes
