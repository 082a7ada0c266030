# SPDX-License-Identifier: Apache-2.0
"""Operations of a stock Cinder with Tonnage as its scheduler: afterwards the ledger, the rows and the files agree."""

from collections.abc import Iterator

import pytest

from tests.cinder import operations, sites
from tests.cinder.operations import FIRST, SECOND, action, on, placed, status
from tests.cinder.sites import Site
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for


@pytest.fixture(scope="module")
def whole_site(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> Iterator[Site]:
    """Two backends with a pool of 100 GiB each."""
    shape = Shape(backends=["b1", "b2"], pools=["a"], total_gb=100, interval=5, schedulers=2)
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape) as found:
        yield found


@pytest.fixture
def site(whole_site: Site) -> Iterator[Site]:
    """The site, which agrees with its ledger after the test, and is empty then."""
    with operations.emptied(whole_site):
        yield whole_site


def test_extend_within_and_beyond_the_room(site: Site) -> None:
    volume_id = placed(site, 10, volume_type=on(site.cinder, "b1"))
    action(site.cinder, volume_id, "os-extend", {"new_size": 60})
    wait_for(lambda: site.cinder.volumes()[volume_id]["size"] == 60, "the volume has grown")
    site.settled(FIRST, 60)
    action(site.cinder, volume_id, "os-extend", {"new_size": 101})
    wait_for(lambda: site.why(volume_id)["refusals"], "the refusal is recorded")
    [refusal] = site.why(volume_id)["refusals"]
    assert refusal["message"].startswith("No pool for 41 GiB more")
    assert "has headroom 40.00 GiB" in refusal["message"]
    wait_for(lambda: status(site.cinder, volume_id) == "available", "it is available as it was")


def test_clone_and_snapshot(site: Site) -> None:
    source = placed(site, 10, volume_type=on(site.cinder, "b1"))
    body = {"snapshot": {"volume_id": source, "name": "s"}}
    snapshot = site.cinder.request("POST", "/snapshots", body)["snapshot"]["id"]
    wait_for(
        lambda: site.cinder.request("GET", f"/snapshots/{snapshot}")["snapshot"]["status"] == "available",
        "the snapshot is available",
    )
    for fields in ({"source_volid": source}, {"snapshot_id": snapshot}):
        volume_id = placed(site, 10, **fields)
        assert site.cinder.volumes()[volume_id]["os-vol-host-attr:host"] == FIRST
    site.cinder.request("DELETE", f"/snapshots/{snapshot}")
    wait_for(lambda: not site.cinder.request("GET", "/snapshots")["snapshots"], "the snapshot is gone")


def test_migrate(site: Site) -> None:
    cinder = site.cinder
    volume_id = placed(site, 10)
    host = cinder.volumes()[volume_id]["os-vol-host-attr:host"]
    target = FIRST if host == SECOND else SECOND
    action(cinder, volume_id, "os-migrate_volume", {"host": target, "force_host_copy": False, "lock_volume": False})
    wait_for(lambda: cinder.volumes()[volume_id]["os-vol-host-attr:host"] == target, "the volume has moved", 30)


def test_manage(site: Site) -> None:
    with (site.cinder.folder / "storage" / "b1" / "a" / "outside").open("wb") as file:
        file.truncate(30 * 2**30)
    body = {"volume": {"host": FIRST, "ref": {"source-name": "outside"}, "name": "managed"}}
    volume_id = site.cinder.request("POST", "/os-volume-manage", body)["volume"]["id"]
    site.cinder.settled([volume_id])
    site.settled(FIRST, 30)


def test_retype_moves_a_volume(site: Site) -> None:
    volume_id = placed(site, 10, volume_type=on(site.cinder, "b1"))
    cinder = site.cinder
    values = {"new_type": on(cinder, "b2"), "migration_policy": "on-demand"}
    action(cinder, volume_id, "os-retype", values)
    wait_for(lambda: cinder.volumes()[volume_id]["os-vol-host-attr:host"] == SECOND, "the volume has moved")
    wait_for(lambda: status(cinder, volume_id) == "available", "it is available")


def test_retype_is_refused_without_room(site: Site) -> None:
    kinds = on(site.cinder, "b1"), on(site.cinder, "b2")
    volume_id = placed(site, 30, volume_type=kinds[0])
    placed(site, 80, volume_type=kinds[1])
    action(site.cinder, volume_id, "os-retype", {"new_type": kinds[1], "migration_policy": "on-demand"})
    wait_for(lambda: site.why(volume_id)["refusals"], "the refusal is recorded")
    wait_for(lambda: status(site.cinder, volume_id) == "available", "it is available as it was")


def test_a_volume_is_tried_in_another_pool_after_a_failure(site: Site) -> None:
    site.cinder.control("b1", fail=True)
    placed(site, 90)
    second = site.cinder.create(90)
    assert [each["status"] for each in site.cinder.settled([second]).values()] == ["error"]
    [refusal] = site.why(second)["refusals"][:1]
    assert "RetryFilter refused 1" in refusal["message"] or "CapacityFilter refused" in refusal["message"]
    because = {each["pool"]: each["because"] for each in site.explained(second)["pools"]}
    tried = because[FIRST].startswith("RetryFilter: was tried for this volume before (one of 1 pool tried)")
    assert tried == ("RetryFilter refused 1" in refusal["message"])


def test_a_volume_that_is_deleted_while_it_is_made(site: Site) -> None:
    site.cinder.control("b1", create_seconds=3)
    volume_id = site.cinder.create(10, volume_type=on(site.cinder, "b1"))
    wait_for(lambda: site.cinder.volumes()[volume_id]["os-vol-host-attr:host"], "it has a host")
    assert site.figures(FIRST) == (10, 10)
    pools = site.cinder.request("GET", "/scheduler-stats/get_pools?detail=True")["pools"]
    [shown] = [each["capabilities"] for each in pools if each["name"] == FIRST]
    assert (shown["in_flight_capacity_gb"], shown["provisioned_capacity_gb"]) == (10, 10)
    action(site.cinder, volume_id, "os-force_delete", {})
    wait_for(lambda: volume_id not in site.cinder.volumes(), "it is gone")
    # cinder-volume makes it all the same, and nobody deletes it. The next figures show the orphan.
    provisioned = f"SELECT provisioned_capacity_gb FROM pools WHERE name = '{FIRST}'"
    wait_for(lambda: site.rows(provisioned) == [(10,)], "the figures show the orphan")
    (site.cinder.folder / "storage" / "b1" / "a" / volume_id).unlink()


def test_a_frozen_backend_takes_nothing_new_and_ends_what_it_has(site: Site) -> None:
    cinder, kind = site.cinder, on(site.cinder, "b1")
    present = placed(site, 10, volume_type=kind)
    site.settled(FIRST, 10)
    cinder.control("b1", create_seconds=4)
    in_hand = cinder.create(20, volume_type=kind)
    wait_for(lambda: cinder.volumes()[in_hand]["os-vol-host-attr:host"], "it has a host")
    cinder.request("PUT", "/os-services/freeze", {"host": "real@b1"})
    problem = "SELECT notice, notice_text FROM backends WHERE name = 'real@b1'"
    wait_for(lambda: site.rows(problem) == [("down", "its service in Cinder is frozen")], "the backend is down")
    assert cinder.settled([in_hand])[in_hand]["status"] == "available"
    refused = cinder.create(10, volume_type=kind)
    assert cinder.settled([refused])[refused]["status"] == "error"
    because = {pool["pool"]: pool["because"] for pool in site.explained(refused)["pools"]}
    assert because[FIRST].startswith("BackendStateFilter: is on a backend that is down, disabled or frozen")
    action(cinder, present, "os-extend", {"new_size": 20})
    wait_for(lambda: site.why(present)["refusals"], "the refusal is recorded")
    wait_for(lambda: status(cinder, present) == "available", "it is available as it was")
    [elsewhere] = cinder.settled([cinder.create(90)]).values()
    assert (elsewhere["status"], elsewhere["os-vol-host-attr:host"]) == ("available", SECOND)
    cinder.request("PUT", "/os-services/thaw", {"host": "real@b1"})
    wait_for(lambda: site.rows(problem) == [(None, None)], "the backend is up")
    # What was in hand counts once, so exactly 70 GiB are left.
    site.settled(FIRST, 30)
    placed(site, 70, volume_type=kind)
    beyond = cinder.create(1, volume_type=kind)
    assert cinder.settled([beyond])[beyond]["status"] == "error"


def test_a_group_with_volumes(site: Site) -> None:
    cinder = site.cinder
    group = operations.group(cinder, on(cinder, "b2"))
    volume_id = operations.member(cinder, group, 5)
    [volume] = cinder.settled([volume_id]).values()
    assert (volume["status"], volume["os-vol-host-attr:host"]) == ("available", SECOND)
    operations.remove_group(cinder, group)
    wait_for(lambda: not cinder.volumes(), "the group's volumes are gone")


def test_the_volumes_of_a_group_from_a_source_are_claimed_before_they_are_made(site: Site) -> None:
    cinder = site.cinder
    source = operations.group(cinder, on(cinder, "b2"))
    for size in (10, 15):
        volume_id = operations.member(cinder, source, size)
        assert cinder.settled([volume_id])[volume_id]["status"] == "available"
    site.settled(SECOND, 25)
    cinder.control("b2", create_seconds=5)
    made = operations.request_group_from(cinder, {"source_group_id": source})
    # At once, and the same while the claims of the volumes replace that of the group.
    counted = set()
    pool = f"FROM pools WHERE name = '{SECOND}'"
    claims = f"SELECT size_gb FROM claims WHERE pool_id = (SELECT id {pool}) ORDER BY size_gb"

    def replaced() -> bool:
        counted.add(site.rows(f"SELECT allocated_capacity_gb {pool}")[0][0])
        return [row[0] for row in site.rows(claims)] == [10, 10, 15, 15]

    wait_for(replaced, "the volumes have claims of their own", 30)
    assert counted == {50}
    cinder.control("b2")
    for group in (made, source):
        operations.when_available(cinder, "group", group)
        operations.remove_group(cinder, group)


def test_groups_from_a_group_and_from_its_snapshot(site: Site) -> None:
    cinder = site.cinder
    source = operations.group(cinder, on(cinder, "b2"))
    first = operations.member(cinder, source, 20)
    assert cinder.settled([first])[first]["status"] == "available"
    snapshot = operations.group_snapshot(cinder, source)
    made = [
        operations.group_from(cinder, {"source_group_id": source}),
        operations.group_from(cinder, {"group_snapshot_id": snapshot}),
    ]
    assert [volume["os-vol-host-attr:host"] for volume in cinder.volumes().values()] == [SECOND] * 3
    site.settled(SECOND, 60)
    placed(site, 30, volume_type=on(cinder, "b2"))
    with pytest.raises(ValueError, match="No valid host to create group"):
        operations.group_from(cinder, {"source_group_id": source})  # 10 GiB are left
    operations.remove_group_snapshot(cinder, snapshot)
    [refused] = operations.groups(cinder) - {source, *made}
    operations.action_on_group(cinder, refused, "reset_status", {"status": "error"})  # Cinder leaves it in creating
    for group in (refused, *made, source):
        operations.remove_group(cinder, group)
