# SPDX-License-Identifier: Apache-2.0
"""tonnage-manage and tonnage-status on real databases, as an operator runs them."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND
from tests.unit.scheduler.world import StoragePool
from tests.unit.scheduler.world import World
from tonnage.ledger import database
from tonnage.ledger import models
from tonnage.ledger import schema
from tonnage.ledger import services

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(database_url: str, tmp_path: pathlib.Path) -> Run:
    """Run a command with the configuration of an empty database, and expect an exit status."""
    conf = tmp_path / "tonnage.conf"
    conf.write_text(f"[database]\nconnection = {database_url}\n", encoding="utf-8")

    def command(program: str, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        path = pathlib.Path(sys.executable).with_name(program)
        ended = subprocess.run(
            [path, "--config-file", conf, *arguments], capture_output=True, text=True, check=False, timeout=60
        )
        assert ended.returncode == status, ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr
        return ended

    return command


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    engine = database.create_engine(database_url)
    schema.sync(engine)
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, engine=engine)
    world.start_agent()
    world.report()
    yield world
    engine.dispose()


def results(run: Run, status: int) -> dict[str, Any]:
    told = json.loads(run("tonnage-status", "upgrade", "check", "--json", status=status).stdout)
    return {check["check"]: check for check in told["checks"]}


def test_the_schema_is_checked_before_and_after_a_sync(run: Run) -> None:
    assert "revision none" in run("tonnage-manage", "db", "check", status=3).stdout
    assert list(results(run, status=2)) == ["Database schema"]
    run("tonnage-manage", "db", "sync")
    run("tonnage-manage", "db", "check")
    assert results(run, status=1)["Database schema"]["result"] == 0


def test_schedulers_that_go_by_different_rules_are_shown(run: Run, world: World) -> None:
    for host, ratio in (("one", "20.0"), ("two", "10.0")):
        me = services.Myself(
            binary=services.SCHEDULER, host=host, default_ratio=ratio, calculation="cinder", rpc_version="1.1"
        )
        world.database.run(services.heartbeat, me)
    check = results(run, status=2)["Rules of the schedulers"]
    assert "max_over_subscription_ratio" in check["details"]
    assert "one: 20.0, two: 10.0" in check["details"]
    world.database.run(services.leave, services.SCHEDULER, "two")
    assert results(run, status=1)["Rules of the schedulers"]["result"] == 0


def test_a_backend_is_disabled_drained_and_enabled(run: Run, world: World) -> None:
    generation = world.rows("SELECT generation FROM pools")
    run("tonnage-manage", "backend", "disable", BACKEND, "--reason", "new disks")
    [row] = json.loads(run("tonnage-manage", "backend", "list", "--json").stdout)
    assert (row["name"], row["state"], row["reason"]) == (BACKEND, "disabled", "new disks")
    assert world.rows("SELECT generation FROM pools") != generation, "decisions that saw it enabled do not count"
    run("tonnage-manage", "backend", "drain", BACKEND)
    assert json.loads(run("tonnage-manage", "backend", "list", "--json").stdout)[0]["state"] == "draining"
    run("tonnage-manage", "backend", "enable", BACKEND)
    assert "enabled" in run("tonnage-manage", "backend", "list").stdout
    told = run("tonnage-manage", "backend", "disable", "no@where", status=1).stderr
    assert "backend no@where could not be found" in told


def test_a_backend_that_never_comes_back_is_removed(run: Run, world: World) -> None:
    world.create(3, 4)
    world.settle()
    told = run("tonnage-manage", "backend", "remove", BACKEND, "--volumes-are-lost", status=1).stderr
    assert "stop its agent first" in told
    silent = sa.update(models.Backend).values(last_report_at=sa.text("'2000-01-01 00:00:00'"))
    world.database.run(lambda session: session.execute(silent) and None)
    told = run("tonnage-manage", "backend", "remove", BACKEND, "--volumes-are-lost").stdout
    assert "2 volume(s) are in error" in told
    assert world.rows("SELECT status, pool_id FROM volumes") == [("error", None)] * 2
    assert world.rows("SELECT status_reason FROM volumes")[0][0].startswith(
        f"an operator has removed backend {BACKEND}, with this volume in pool {BACKEND}#p0"
    )
    for table in ("claims", "pools", "backends"):
        assert world.rows(f"SELECT COUNT(*) FROM {table}") == [(0,)]
    # An agent that returns begins anew; the volumes in error can be deleted.
    world.start_scheduler()
    world.start_agent()
    world.report()
    for volume_id, *_ in world.rows("SELECT id FROM volumes"):
        world.delete(volume_id)
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(0,)]


def test_a_database_that_is_away(run: Run, tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "away.conf"
    conf.write_text("[database]\nconnection = postgresql+psycopg://nobody@127.0.0.1:1/none\n", encoding="utf-8")
    told = run("tonnage-status", "--config-file", str(conf), "upgrade", "check", status=255).stderr
    assert told.startswith("tonnage-status: the database that [database] connection names cannot be used")
    assert told.count("\n") == 1
