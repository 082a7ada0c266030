# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage`` and ``tonnage-status`` on real databases: forked processes, and one program of each."""

import dataclasses
import datetime
import json
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.deployment import CommandResult, run_program
from tests.servers import ledger_schema
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.reports import audit_rules
from tonnage.capacity.request import Provisioning
from tonnage.extensions.cinder.ledger import observed_claims
from tonnage.extensions.cinder.scheduler.cinder_ledger import CinderLedger
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.locks import heartbeats
from tonnage.rpc.messages import AuditSnapshot

EARLIER = datetime.datetime.fromisoformat("2026-01-02T12:00:00")

#: A volume of Cinder.
IN_ERROR = "11111111-2222-4333-8444-555555555555"

Run = Callable[..., CommandResult]

_HEAVY = pytest.mark.heavy
#: For tests of commands. Other tests run the statements of the ledger on each database.
on_one_database = pytest.mark.parametrize(
    "database_url",
    ["postgresql", pytest.param("sqlite", marks=_HEAVY), pytest.param("mariadb", marks=_HEAVY)],
    indirect=True,
)


@pytest.fixture
def run(database_url: str, tmp_path: pathlib.Path) -> Run:
    """A function that runs a command with an empty database and asserts its exit status."""
    conf = tmp_path / "tonnage.conf"
    conf.write_text(f"[database]\nconnection = {database_url}\n", encoding="utf-8")

    def command(program: str, *arguments: str, status: int = 0, forked: bool = True) -> CommandResult:
        ended = run_program(program, "--config-file", conf, *arguments, environment=None if forked else {})
        assert ended.code == status, ended.output + ended.error
        assert "Traceback" not in ended.error
        return ended

    return command


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    engine = database.create_engine(database_url)
    ledger_schema.create(engine)
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, engine=engine).started()
    yield world
    engine.dispose()


def results(run: Run, status: int, *, forked: bool = True) -> dict[str, Any]:
    told = json.loads(run("tonnage-status", "upgrade", "check", "--json", status=status, forked=forked).output)
    return {check["check"]: check for check in told["checks"]}


@on_one_database
def test_the_schema_is_checked_before_and_after_a_sync(run: Run) -> None:
    assert re.search("revision none|no database", run("tonnage-manage", "db", "check", status=3).output)
    assert list(results(run, status=2)) == ["Database schema"]
    run("tonnage-manage", "db", "sync", forked=False)
    run("tonnage-manage", "db", "check")
    assert results(run, status=1, forked=False)["Database schema"]["result"] == 0


@on_one_database
def test_the_upgrade_check_shows_schedulers_with_different_rules(run: Run, world: World) -> None:
    for host, ratio in (("one", "20.0"), ("two", "10.0")):
        me = heartbeats.SchedulerProcess(
            binary=heartbeats.SCHEDULER, host=host, default_ratio=ratio, calculation="cinder"
        )
        world.database.run(heartbeats.heartbeat, me)
    check = results(run, status=2)["Rules of the schedulers"]
    assert "max_over_subscription_ratio" in check["details"]
    assert "one: 20.0, two: 10.0" in check["details"]
    world.database.run(heartbeats.leave, me)
    durable = world.database.engine.dialect.name == "sqlite"  # the servers of the tests do not wait for the disk
    warnings = [check["check"] for check in results(run, status=0 if durable else 1).values() if check["result"]]
    assert warnings == ([] if durable else ["Durability of the database"])


@on_one_database
def test_the_upgrade_check_knows_a_ledger_of_cinder(run: Run, database_url: str) -> None:
    """Its schedulers are Cinder's, and Cinder tells whether a backend is up, however old its last report is."""
    engine = database.create_engine(database_url)
    ledger_schema.create(engine)
    cinder = CinderLedger(database.Database(engine), lease=60, lag=0)
    cinder.observe("real@b1")
    in_error = observed_claims.SeenVolume(volume_id=IN_ERROR, pool="real@b1#a", size_gb=5, ended=False)
    cinder.database.run(observed_claims.insert_pools, {"real@b1#a": cinder.observe("real@b1")})
    cinder.database.run(observed_claims.settle, [], [in_error])
    with engine.begin() as connection:
        connection.execute(sa.update(models.Backend).values(last_report_at=EARLIER))
        connection.execute(sa.update(models.Claim).values(created_at=EARLIER))
    found = results(run, status=1)
    assert found["Rules of the schedulers"]["result"] == found["Backends that are down"]["result"] == 0
    assert found["Operations that do not end"]["details"] == (
        f"1 operation(s) have not ended for an hour: create of volume {IN_ERROR} in real@b1#a; a volume of Cinder in "
        "error keeps its capacity until it is deleted"
    )
    cinder.record_problems({"real@b1": "its service in Cinder is disabled"})
    told = results(run, status=1)["Backends that are down"]["details"]
    assert told == "these backends are down: real@b1 (its service in Cinder is disabled)"
    engine.dispose()


@on_one_database
def test_the_upgrade_check_tries_a_write(run: Run, world: World) -> None:
    assert results(run, status=1)["Ledger takes writes"]["result"] == 0
    with world.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE write_probes RENAME TO other")
        connection.execute(sa.update(models.Backend).values(last_report_at=EARLIER))
    checks = results(run, status=2)
    check = checks["Ledger takes writes"]
    assert check["details"].startswith("the ledger cannot be written: ")
    assert "write_probes" in check["details"]
    assert checks["Backends that are down"]["details"] == (
        "nobody can tell which backends are down: the ledger cannot be written, so no report is recorded"
    )


@on_one_database
def test_the_upgrade_check_warns_of_a_missing_default_type(run: Run, world: World) -> None:
    with world.database.engine.begin() as connection:
        connection.execute(sa.update(models.VolumeType).values(name="gold"))
    check = results(run, status=1)["Default volume type"]
    assert "default_volume_type names '__DEFAULT__', and there is no such volume type" in check["details"]


@on_one_database
def test_the_upgrade_check_warns_of_servers_without_verification(
    run: Run, world: World, tmp_path: pathlib.Path
) -> None:
    conf = tmp_path / "bus.conf"
    conf.write_text("[DEFAULT]\ntransport_url = rabbit://u:secret@mq.example.org/\n", encoding="utf-8")
    told = run("tonnage-status", "--config-file", str(conf), "upgrade", "check", "--json", status=1).output
    [check] = [each for each in json.loads(told)["checks"] if each["check"] == "Verification of servers"]
    assert check["details"].startswith("[DEFAULT] transport_url: the certificate of mq.example.org is not verified")


@on_one_database
def test_a_backend_is_disabled_drained_and_enabled(run: Run, world: World) -> None:
    generation = world.rows("SELECT generation FROM pools")
    run("tonnage-manage", "backend", "disable", BACKEND, "--reason", "new disks")
    [row] = json.loads(run("tonnage-manage", "backend", "list", "--json").output)
    assert (row["name"], row["state"], row["reason"]) == (BACKEND, "disabled", "new disks")
    assert world.rows("SELECT generation FROM pools") != generation, "decisions on the enabled backend are still valid"
    run("tonnage-manage", "backend", "drain", BACKEND)
    assert json.loads(run("tonnage-manage", "backend", "list", "--json").output)[0]["state"] == "draining"
    run("tonnage-manage", "backend", "enable", BACKEND)
    assert "enabled" in run("tonnage-manage", "backend", "list").output
    told = run("tonnage-manage", "backend", "disable", "no@where", status=1).error
    assert "backend no@where could not be found" in told


def test_a_lost_backend_is_removed(run: Run, world: World) -> None:
    world.create(3, 4)
    world.settle()
    told = run("tonnage-manage", "backend", "remove", BACKEND, "--volumes-are-lost", status=3).error
    assert "stop its agent first" in told
    silent = sa.update(models.Backend).values(last_report_at=sa.text("'2000-01-01 00:00:00'"))
    world.database.run(lambda session: session.execute(silent) and None)
    told = run("tonnage-manage", "backend", "remove", BACKEND, "--volumes-are-lost").output
    assert "2 volume(s) are in error" in told
    assert world.rows("SELECT status, pool_id FROM volumes") == [("error", None)] * 2
    assert world.rows("SELECT status_reason FROM volumes")[0][0].startswith(
        f"an operator has removed backend {BACKEND}, with this volume in pool {BACKEND}#p0"
    )
    for table in ("claims", "pools", "backends"):
        assert world.rows(f"SELECT COUNT(*) FROM {table}") == [(0,)]
    # An agent that returns has a new backend. The volumes in error can be deleted.
    world.start_scheduler()
    world.start_agent()
    world.report()
    for volume_id, *_ in world.rows("SELECT id FROM volumes"):
        world.delete(volume_id)
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(0,)]


@on_one_database
def test_an_unreachable_database_is_reported_in_one_line(run: Run, tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "away.conf"
    conf.write_text("[database]\nconnection = postgresql+psycopg://nobody@127.0.0.1:1/none\n", encoding="utf-8")
    told = run("tonnage-status", "--config-file", str(conf), "upgrade", "check", status=255).error
    assert told.startswith("tonnage-status: the database that [database] connection names cannot be used")
    assert told.count("\n") == 1


@on_one_database
def test_a_wrong_configuration_is_an_error_of_the_check(run: Run, tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "wrong.conf"
    conf.write_text("[DEFAULT]\nservice_down_time = soon\n", encoding="utf-8")
    for file, word in ((conf, "service_down_time"), (tmp_path / "missing.conf", "missing.conf")):
        told = run("tonnage-status", "--config-file", str(file), "upgrade", "check", status=255).error
        assert told.startswith("tonnage-status: ")
        assert word in told
        assert told.count("\n") == 1


@on_one_database
def test_the_audit_command_shows_wrong_reports(run: Run, world: World) -> None:
    """A report alone shows one finding. The other needs a comparison with a listing."""

    def look(**lies: Any) -> None:
        seen, listing = world.agent.look(), world.agent.listing()
        seen.pools[0].update(lies)
        world.deliver(seen)
        world.audit.work()
        held = sum(volume.size_gb for volume in listing.volumes)
        snapshot = AuditSnapshot(figures=audit_rules.comparable_figures(seen.pools[0]), least_gb=held, all_gb=held)
        world.registration.listings([dataclasses.replace(listing, audit_snapshots=[snapshot])])
        world.audit.work()

    volume_id = world.made(3)
    look()
    told = json.loads(run("tonnage-manage", "driver", "audit", "--json").output)
    assert (told["clean"], told["findings"]) == (True, [])
    assert told["backends"][0]["name"] == BACKEND
    assert "1 backend(s) audited: their reports keep" in run("tonnage-manage", "driver", "audit").output
    look(allocated_capacity_gb=3, provisioned_capacity_gb=1)
    [found] = json.loads(run("tonnage-manage", "driver", "audit", "--json", status=3).output)["findings"]
    assert (found["pool"], found["breach"]) == (f"{BACKEND}#p0", "no_allocated")
    look(provisioned_capacity_gb=1)
    table = run("tonnage-manage", "driver", "audit", "--backend", BACKEND, status=3).output
    assert "provisioned_too_small" in table
    assert "provisioned_capacity_gb is 1 and there are volumes of 3" in table
    assert "no_allocated" not in table
    world.delete(volume_id)
    world.settle()
    look()
    run("tonnage-manage", "driver", "audit")
    told = run("tonnage-manage", "driver", "audit", "--backend", "no@where", status=1).error
    assert "backend no@where could not be found" in told


@on_one_database
def test_the_check_of_a_correct_ledger_finds_nothing(run: Run, world: World) -> None:
    world.create(3, 4)
    told = json.loads(run("tonnage-manage", "ledger", "check", "--json").output)
    assert (told["clean"], told["pools"], told["drift"]) == (True, 1, 0)
    assert [(one["cause"], one["ledger_gb"], one["drift"]) for one in told["findings"]] == [("in_flight", 7, False)]
    [backend] = told["backends"]
    assert backend["name"] == BACKEND
    assert 0 <= backend["listed_s_ago"] < 60
    assert "1 pool(s) checked: the ledger is right" in run("tonnage-manage", "ledger", "check").output
    assert "There is nothing to mend" in run("tonnage-manage", "ledger", "repair").output
    assert results(run, status=1)["Ledger"]["result"] == 0


@on_one_database
def test_drift_is_found_and_repaired(run: Run, world: World) -> None:
    world.create(3, 4)
    world.settle()
    with world.engine.begin() as connection:
        connection.execute(sa.text("UPDATE pools SET allocated_capacity_gb = 12, in_flight_gb = 1"))
        connection.execute(sa.text("UPDATE backends SET allocated_capacity_gb = 9"))
    table = run("tonnage-manage", "ledger", "check", status=3).output
    assert "3 thing(s) wrong, of which 'tonnage-manage ledger repair' mends 3" in table
    assert f"{BACKEND}#p0" in table
    check = results(run, status=1)["Ledger"]
    assert check["result"] == 1
    assert "3 place(s)" in check["details"]
    for place in (("--pool", f"{BACKEND}#p0"), ("--backend", BACKEND)):
        run("tonnage-manage", "ledger", "check", *place, status=3)
    planned = json.loads(run("tonnage-manage", "ledger", "repair", "--dry-run", "--json", status=3).output)
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(12, 1)]
    ended = run("tonnage-manage", "ledger", "repair", "--json", status=4)
    done = json.loads(ended.output)
    key = lambda change: (change["where"], change["subject"])  # noqa: E731
    assert sorted(done["changes"], key=key) == sorted(planned["changes"], key=key)
    assert {(one["subject"], one["before_gb"], one["after_gb"]) for one in done["changes"]} == {
        ("allocated_capacity_gb", 12, 7),
        ("in_flight_gb", 1, 0),
        ("allocated_capacity_gb", 9, 7),
    }
    assert (done["clean"], done["left"]["drift"]) == (True, 0)
    assert f"{BACKEND}#p0 allocated_capacity_gb: 12 -> 7" in ended.error
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(7, 0)]
    assert json.loads(run("tonnage-manage", "ledger", "repair", "--json").output)["changes"] == []
    run("tonnage-manage", "ledger", "check")


@on_one_database
def test_repair_leaves_findings_that_need_an_operator(run: Run, world: World) -> None:
    volume_id = world.made(3)
    del world.pools["p0"].volumes[volume_id]
    world.registration.listings([world.agent.listing()])
    told = run("tonnage-manage", "ledger", "repair", status=3).output
    assert "Left, as only a person can decide it" in told
    assert volume_id in told
    assert world.rows("SELECT allocated_capacity_gb FROM pools") == [(3,)]


@on_one_database
def test_a_check_that_cannot_run_fails(run: Run, world: World, tmp_path: pathlib.Path) -> None:
    told = run("tonnage-manage", "ledger", "check", "--pool", "no@where#p", status=1).error
    assert "pool no@where#p could not be found" in told
    assert (
        "backend no@where could not"
        in run("tonnage-manage", "ledger", "check", "--backend", "no@where", status=1).error
    )
    run("tonnage-manage", "ledger", "check", "--pool", "a", "--backend", "b", status=2)
    conf = tmp_path / "away.conf"
    conf.write_text("[database]\nconnection = postgresql+psycopg://nobody@127.0.0.1:1/none\n", encoding="utf-8")
    run("tonnage-manage", "--config-file", str(conf), "ledger", "check", status=1)
    with world.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0000' WHERE version_num = '0001'"))
    assert "run 'tonnage-manage db sync'" in run("tonnage-manage", "ledger", "check", status=1).error


@pytest.mark.heavy
@on_one_database
def test_an_orphan_is_purged_after_confirmation(run: Run, world: World) -> None:
    world.pools["p0"].volumes["of-others"] = (5, Provisioning.THIN)
    world.registration.listings([world.agent.listing()])
    [row] = json.loads(run("tonnage-manage", "orphan", "list", "--json").output)
    assert (row["pool"], row["name"], row["size_gb"]) == (f"{BACKEND}#p0", "of-others", 5)
    run("tonnage-manage", "ledger", "check")
    run("tonnage-manage", "ledger", "check", "--strict", status=3)
    purge = ("tonnage-manage", "orphan", "purge", f"{BACKEND}#p0")
    run(*purge, "of-others", status=2)  # without a confirmation
    assert "is no orphan" in run(*purge, "something-else", "--yes", status=1).error
    assert "to be deleted" in run(*purge, "of-others", "--yes").output
    assert "of-others" not in run("tonnage-manage", "orphan", "list").output
    world.settle()
    assert "of-others" not in world.pools["p0"].volumes
    world.registration.listings([world.agent.listing()])
    assert json.loads(run("tonnage-manage", "orphan", "list", "--json").output) == []
    assert world.rows("SELECT external_gb FROM pools") == [(0,)]
    run("tonnage-manage", "ledger", "check", "--strict")


@on_one_database
def test_a_volume_is_never_purged_as_an_orphan(run: Run, world: World) -> None:
    told = run("tonnage-manage", "orphan", "purge", f"{BACKEND}#p0", world.made(3), "--yes", status=1).error
    assert "delete the volume" in told
    assert world.rows("SELECT COUNT(*) FROM claims WHERE verb = 'purge'") == [(0,)]
