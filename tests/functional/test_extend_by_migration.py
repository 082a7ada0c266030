# SPDX-License-Identifier: Apache-2.0
"""A volume that cannot grow in its pool moves to another one, with files: one volume, one place, one size."""

import random
import time
from collections.abc import Iterator

import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import GIB, Deployment
from tests.servers.base import wait_for

BACKENDS = {"small": {"filesystem_size_limit_gb": 4}, "large": {"filesystem_size_limit_gb": 12}}

#: The first bytes of the volume.
CONTENT = b"kept" * 1024


@pytest.fixture
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS, rpc_response_timeout=5, max_over_subscription_ratio=1.0) as deployment:
        deployment.start()
        deployment.rest.create_type("growing", provisioning__extend_by_migration="<is> True")
        deployment.rest.create_type("small", volume_backend_name="small")
        yield deployment


def create_in_small_pool(tonnage: Deployment, size_gb: int) -> str:
    """Return a volume with content in the small pool, whose type lets it move to grow."""
    volume_id = tonnage.rest.create(size_gb, "small")
    tonnage.rest.wait_until_available(volume_id)
    retype = {"os-retype": {"new_type": "growing", "migration_policy": "never"}}
    assert tonnage.rest.request("POST", f"volumes/{volume_id}/action", retype).status_code == 202
    with (tonnage.path("small") / volume_id).open("r+b") as file:
        file.write(CONTENT)
    return volume_id


def check_place(tonnage: Deployment, volume_id: str) -> tuple[str, int]:
    """Return the backend and the size of a volume; ledger, quota, API and files must agree, and its content be kept."""
    tonnage.check_at_rest()
    volume = tonnage.rest.wait_until_available(volume_id)
    [backend] = [name for name in BACKENDS if volume_id in tonnage.files(name)]
    assert volume["os-vol-host-attr:host"] == tonnage.pool(backend)
    assert tonnage.files(backend)[volume_id].st_size == volume["size"] * GIB
    usage = tonnage.rest.get("os-quota-sets/demo", usage=True)["quota_set"]
    assert usage["gigabytes_growing"]["in_use"] == volume["size"]
    with (tonnage.path(backend) / volume_id).open("rb") as file:
        assert file.read(len(CONTENT)) == CONTENT
    return backend, int(volume["size"])


@pytest.mark.parametrize("deploy", ["standalone"], indirect=True)
def test_a_volume_moves_to_grow_and_stays_if_that_fails(tonnage: Deployment) -> None:
    rest, volume_id = tonnage.rest, create_in_small_pool(tonnage, 2)
    assert rest.extend(volume_id, 3).status_code == 202
    assert check_place(tonnage, volume_id) == ("small", 3)

    refused = rest.extend(volume_id, 13)
    assert refused.status_code == 409, refused.text
    assert tonnage.pool("large") in refused.json()["conflictingRequest"]["message"]

    # The copy fails: something else has its name.
    foreign = tonnage.path("large") / volume_id
    foreign.write_bytes(b"foreign")
    assert rest.extend(volume_id, 6).status_code == 202
    rest.wait_until_available(volume_id)
    foreign.unlink()
    assert check_place(tonnage, volume_id) == ("small", 3)

    assert rest.extend(volume_id, 6).status_code == 202
    assert check_place(tonnage, volume_id) == ("large", 6)
    rest.delete(volume_id)
    assert not tonnage.files("large")


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("deploy", ["postgresql"], indirect=True)
def test_a_volume_that_moves_to_grow_survives_kills(tonnage: Deployment) -> None:
    """SIGKILL of the scheduler or the agent at a random moment of each move."""
    chance = random.Random(1)
    rest, places = tonnage.rest, set()
    for _ in range(20):
        volume_id = create_in_small_pool(tonnage, 2)
        assert rest.extend(volume_id, 6).status_code == 202
        time.sleep(chance.uniform(0, 0.3))
        name = chance.choice(["scheduler", "agent"])
        tonnage.kill(name)
        tonnage.start(name)
        wait_for(lambda: rest.volume(volume_id)["status"] == "available", "the volume is available")  # noqa: B023
        place = check_place(tonnage, volume_id)
        assert place in (("small", 2), ("large", 6))
        places.add(place)
        rest.delete(volume_id)
    assert ("large", 6) in places, "no move has ended well"
