# SPDX-License-Identifier: Apache-2.0
"""Clone, migrate, retype, manage, unmanage, drain and multiple creation, from REST to the content of files."""

import errno
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import GIB, Deployment
from tests.servers.base import wait_for

pytestmark = on_one_database

_BLOCK = 4096

BACKENDS: dict[str, dict[str, Any]] = {
    "left": {"filesystem_size_limit_gb": 4, "max_over_subscription_ratio": 2.0},
    "right": {"filesystem_size_limit_gb": 4, "max_over_subscription_ratio": 2.0},
    "thick": {"filesystem_size_limit_gb": 3, "filesystem_provisioning": "thick"},
}


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS, listing_interval=2) as deployment:
        deployment.start()
        for backend in BACKENDS:
            deployment.rest.create_type(backend, volume_backend_name=backend)
        # A type without a backend.
        deployment.rest.create_type("anywhere")
        yield deployment


def act(tonnage: Deployment, volume_id: str, action: str, **arguments: Any) -> Any:
    return tonnage.rest.request("POST", f"volumes/{volume_id}/action", {action: arguments})


def settled(tonnage: Deployment, volume_id: str) -> dict[str, Any]:
    """Wait until no operation is in progress on a volume, which must be available then."""

    def rests() -> dict[str, Any] | None:
        volume = tonnage.rest.volume(volume_id)
        return None if volume["status"] in ("creating", "extending", "maintenance", "retyping") else volume

    volume: dict[str, Any] = wait_for(rests, f"no operation is in progress on volume {volume_id}")
    assert volume["status"] == "available", volume["status_reason"]
    return volume


def write(tonnage: Deployment, backend: str, volume_id: str) -> dict[int, bytes]:
    """Write to parts of a volume's file, and return its content by block number."""
    with (tonnage.path(backend) / volume_id).open("r+b") as file:
        for offset in (0, 7 * 4096 + 13, GIB - 1000):
            file.seek(offset)
            file.write(os.urandom(1000))
    written = content(tonnage, backend, volume_id)
    assert len(written) >= 3
    return written


def content(tonnage: Deployment, backend: str, volume_id: str) -> dict[int, bytes]:
    """Return the blocks of a volume's file that are not empty, by number."""
    found: dict[int, bytes] = {}
    with (tonnage.path(backend) / volume_id).open("rb") as file:
        end = 0
        while (start := _data(file.fileno(), end)) is not None:
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            for number in range(start // _BLOCK, -(-end // _BLOCK)):
                block = os.pread(file.fileno(), _BLOCK, number * _BLOCK)
                if block.strip(b"\0"):
                    found[number] = block
    return found


def _data(file: int, offset: int) -> int | None:
    """Return the offset of the next data of a file, or None."""
    try:
        return os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def host(tonnage: Deployment, volume_id: str) -> str:
    return str(tonnage.rest.volume(volume_id)["os-vol-host-attr:host"])


def test_a_clone_has_the_content_of_its_source(tonnage: Deployment) -> None:
    source = tonnage.rest.wait_until_available(tonnage.rest.create(1, "left"))
    written = write(tonnage, "left", source["id"])
    answer = tonnage.rest.request("POST", "volumes", {"volume": {"source_volid": source["id"]}})
    assert answer.status_code == 202, answer.text
    clone = settled(tonnage, answer.json()["volume"]["id"])
    assert (clone["size"], clone["source_volid"], clone["volume_type"]) == (1, source["id"], "left")
    assert content(tonnage, "left", clone["id"]) == written
    tonnage.check_at_rest()
    tonnage.rest.delete(source["id"], clone["id"])


def test_a_volume_keeps_its_content_through_migrations(tonnage: Deployment) -> None:
    volume_id = tonnage.rest.wait_until_available(tonnage.rest.create(1, "left"))["id"]
    assert act(tonnage, volume_id, "os-retype", new_type="anywhere").status_code == 202
    written = write(tonnage, "left", volume_id)
    for source, target in (("left", "right"), ("right", "left"), ("left", "right")):
        answer = act(tonnage, volume_id, "os-migrate_volume", host=tonnage.pool(target))
        assert answer.status_code == 202, answer.text
        volume = settled(tonnage, volume_id)
        assert volume["os-vol-host-attr:host"] == tonnage.pool(target)
        assert volume["migration_status"] == "success"
        assert content(tonnage, target, volume_id) == written
        wait_for(lambda: volume_id not in tonnage.files(source), "the old copy is deleted")  # noqa: B023
        tonnage.check_at_rest()
    tonnage.rest.delete(volume_id)


def test_a_retype_migrates_on_demand(tonnage: Deployment) -> None:
    volume_id = tonnage.rest.wait_until_available(tonnage.rest.create(1, "left"))["id"]
    written = write(tonnage, "left", volume_id)
    answer = act(tonnage, volume_id, "os-retype", new_type="thick")
    assert answer.status_code == 409
    assert "CapabilitiesFilter refused" in answer.json()["conflictingRequest"]["message"]
    answer = act(tonnage, volume_id, "os-retype", new_type="thick", migration_policy="on-demand")
    assert answer.status_code == 202, answer.text
    volume = settled(tonnage, volume_id)
    assert (volume["volume_type"], volume["os-vol-host-attr:host"]) == ("thick", tonnage.pool("thick"))
    assert content(tonnage, "thick", volume_id) == written
    assert tonnage.files("thick")[volume_id].st_blocks * 512 >= GIB, "a thick volume has its blocks"
    wait_for(lambda: volume_id not in tonnage.files("left"), "the old copy is deleted")
    tonnage.check_at_rest()
    tonnage.rest.delete(volume_id)


@pytest.mark.parametrize("backend", ["right", "thick"])
def test_a_file_is_managed_and_unmanaged(tonnage: Deployment, backend: str) -> None:
    pool = tonnage.pool(backend)
    foreign = tonnage.path(backend) / "foreign"
    with foreign.open("wb") as file:
        file.write(b"theirs")
        file.truncate(GIB + 5)

    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = tonnage.rest.get("manageable_volumes/detail", host=pool)["manageable-volumes"]
        return found

    (found,) = wait_for(listed, "the file is listed")
    assert (found["reference"], found["size"], found["extra_info"]) == ({"source-name": foreign.name}, 2, pool)
    body = {"volume": {"host": pool, "ref": found["reference"], "name": "mine now"}}
    answer = tonnage.rest.request("POST", "manageable_volumes", body)
    assert answer.status_code == 202, answer.text
    volume = settled(tonnage, answer.json()["volume"]["id"])
    assert (volume["name"], volume["size"]) == ("mine now", 2)
    file = tonnage.path(backend) / volume["id"]
    assert not foreign.exists()
    assert content(tonnage, backend, volume["id"])[0].strip(b"\0") == b"theirs"
    assert (file.stat().st_blocks * 512 >= 2 * GIB) == (backend == "thick")
    tonnage.check_at_rest()
    assert not listed()

    # The file of a volume cannot be managed.
    body["volume"]["ref"] = {"source-name": volume["id"]}
    answer = tonnage.rest.request("POST", "manageable_volumes", body)
    assert (answer.status_code, file.exists()) == (400, True)

    assert act(tonnage, volume["id"], "os-unmanage").status_code == 202
    assert tonnage.rest.request("GET", f"volumes/{volume['id']}").status_code == 404
    assert file.exists()
    assert [one["reference"] for one in listed()] == [{"source-name": volume["id"]}], "it can be managed again"
    capabilities = tonnage.rest.pools()[pool]
    assert (capabilities["allocated_capacity_gb"], capabilities["provisioned_capacity_gb"]) == (0, 2)
    tonnage.check_counters()
    file.unlink()
    wait_for(lambda: tonnage.rest.pools()[pool]["provisioned_capacity_gb"] == 0, "a report no longer includes the file")
    tonnage.check_at_rest()


def test_a_missing_file_cannot_be_managed(tonnage: Deployment) -> None:
    body = {"volume": {"host": f"{tonnage.host}@left", "ref": {"source-name": "nothing"}}}
    volume_id = tonnage.rest.request("POST", "os-volume-manage", body).json()["volume"]["id"]
    wait_for(lambda: tonnage.rest.volume(volume_id)["status"] == "error_managing", "the driver has failed")
    assert "there is no such file" in tonnage.rest.volume(volume_id)["status_reason"]
    tonnage.rest.delete(volume_id)


def test_several_volumes_are_created_all_or_none(tonnage: Deployment) -> None:
    hint = {"different_host": [0]}
    wanted = [{"size": 5, "name": "a"}, {"size": 5, "name": "b", "scheduler_hints": hint}, {"size": 1, "name": "c"}]
    answer = tonnage.rest.request("POST", "volumes", {"volumes": wanted})
    assert answer.status_code == 202, answer.text
    made = [settled(tonnage, volume["id"]) for volume in answer.json()["volumes"]]
    assert [(volume["name"], volume["size"]) for volume in made] == [("a", 5), ("b", 5), ("c", 1)]
    assert {volume["os-vol-host-attr:host"] for volume in made[:2]} == {tonnage.pool("left"), tonnage.pool("right")}
    answer = tonnage.rest.request("POST", "volumes", {"volumes": [{"size": 1}, {"size": 5}]})
    assert answer.status_code == 409
    assert "(volume 2 of 2, all or none)" in answer.json()["conflictingRequest"]["message"]
    assert len(tonnage.rest.volumes()) == 3
    tonnage.check_at_rest()
    tonnage.rest.delete(*(volume["id"] for volume in made))


def test_a_drained_backend_is_emptied_and_can_be_enabled_again(tonnage: Deployment) -> None:
    service = {"host": f"{tonnage.host}@left", "binary": "cinder-volume"}
    ids = [tonnage.rest.wait_until_available(tonnage.rest.create(1, "left"))["id"] for _ in range(2)]
    for volume_id in ids:
        assert act(tonnage, volume_id, "os-retype", new_type="anywhere").status_code == 202
    written = [write(tonnage, "left", volume_id) for volume_id in ids]
    assert tonnage.rest.request("PUT", "os-services/drain", {**service, "disabled_reason": "moving"}).status_code == 200
    assert tonnage.rest.pools()[tonnage.pool("left")]["draining"] is True
    rows = tonnage.rest.get("os-services", host=service["host"])["services"]
    assert [(row["status"], row["draining"], row["disabled_reason"]) for row in rows] == [("disabled", True, "moving")]
    wait_for(lambda: not tonnage.files("left"), "the backend is empty")
    for volume_id, before in zip(ids, written, strict=True):
        backend = settled(tonnage, volume_id)["os-vol-host-attr:host"].rpartition("#")[2]
        assert backend in ("right", "thick")
        assert content(tonnage, backend, volume_id) == before
    tonnage.check_at_rest()
    assert "BackendStateFilter refused 1" in tonnage.rest.refusal(1, "left")["message"]

    assert tonnage.rest.request("PUT", "os-services/enable", service).status_code == 200
    answer = act(tonnage, ids[0], "os-migrate_volume", host=service["host"])
    assert answer.status_code == 202, answer.text
    assert settled(tonnage, ids[0])["os-vol-host-attr:host"] == tonnage.pool("left")
    assert content(tonnage, "left", ids[0]) == written[0]
    tonnage.check_at_rest()
    tonnage.rest.delete(*ids)


@pytest.mark.heavy
def test_accepted_operations_are_completed_after_a_kill(tonnage: Deployment) -> None:
    rounds: list[tuple[str, ...]] = [("agent",), ("scheduler",)] if tonnage.distributed else [()]
    for victims in rounds:
        moved, source = (tonnage.rest.wait_until_available(tonnage.rest.create(1, "left"))["id"] for _ in range(2))
        assert act(tonnage, moved, "os-retype", new_type="anywhere").status_code == 202
        written = {volume_id: write(tonnage, "left", volume_id) for volume_id in (moved, source)}
        with (tonnage.path("thick") / "theirs").open("wb") as file:
            file.truncate(GIB)
        pool = tonnage.pool("thick")
        answers = [
            act(tonnage, moved, "os-migrate_volume", host=tonnage.pool("right")),
            tonnage.rest.request("POST", "volumes", {"volumes": [{"source_volid": source}, {"size": 1}]}),
            tonnage.rest.request("POST", "manageable_volumes", {"volume": {"host": pool, "ref": "theirs"}}),
        ]
        tonnage.kill(*victims)
        assert [answer.status_code for answer in answers] == [202, 202, 202], [answer.text for answer in answers]
        tonnage.start(*victims)
        clone, other = (volume["id"] for volume in answers[1].json()["volumes"])
        managed = answers[2].json()["volume"]["id"]
        for volume_id in (moved, clone, other, managed):
            settled(tonnage, volume_id)
        assert host(tonnage, moved) == tonnage.pool("right")
        assert content(tonnage, "right", moved) == written[moved]
        assert content(tonnage, "left", clone) == written[source]
        wait_for(lambda: moved not in tonnage.files("left"), "the old copy is deleted")  # noqa: B023
        tonnage.check_at_rest()
        tonnage.rest.delete(moved, source, clone, other, managed)
        tonnage.check_at_rest()
