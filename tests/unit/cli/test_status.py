# SPDX-License-Identifier: Apache-2.0
"""``tonnage-status``: what the checks find, and what they leave as it is."""

import pathlib
import re
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.unit.api.cluster import configuration
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.cli import status
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options
from tonnage.ledger.locks import heartbeats

HOURS = 7200.0

#: The table of the results is oslo.upgradecheck's own.
pytestmark = pytest.mark.filterwarnings("ignore:the 'ALL' constant is deprecated:DeprecationWarning")


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> cfg.ConfigOpts:
    """A configuration that names a ledger which is not there."""
    file = tmp_path / "tonnage.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/ledger.sqlite\n")
    conf = configuration([str(file)])
    database_options.register(conf)
    return conf


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    """A ledger with one backend, and one scheduler that is up."""
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, engine=engine).started()
    beat(world, "one", "20.0")
    yield world
    engine.dispose()


def beat(world: World, host: str, ratio: str) -> None:
    """Let a scheduler with this default ratio give a heartbeat."""
    scheduler = heartbeats.SchedulerProcess(
        binary=heartbeats.SCHEDULER, host=host, default_ratio=ratio, calculation="cinder"
    )
    world.database.run(heartbeats.heartbeat, scheduler)


def age(world: World, model: type[models.Base], column: str) -> None:
    """Let a time of all rows of a table be two hours ago."""
    earlier = sa.func.datetime(sa.column(column), f"-{HOURS} seconds")
    with world.engine.begin() as connection:
        connection.execute(sa.update(models.table(model)).values({column: sa.type_coerce(earlier, sa.String)}))


@pytest.fixture
def check(conf: cfg.ConfigOpts, capsys: pytest.CaptureFixture[str]) -> Callable[[], tuple[int, dict[str, str]]]:
    """A function that runs the checks, and returns the exit status, and the result of each check with its details."""

    def run() -> tuple[int, dict[str, str]]:
        code = int(status.Checks(conf).check())
        cells = " ".join(line.strip("| ") for line in capsys.readouterr().out.splitlines() if line.startswith("|"))
        checks = re.findall(r"Check: (.*?) Result: (.*?) Details: (.*?)(?= Check: |$)", cells)
        return code, {name: f"{result}: {' '.join(details.split())}" for name, result, details in checks}

    return run


Check = Callable[[], tuple[int, dict[str, str]]]


def faults(results: dict[str, str]) -> dict[str, str]:
    return {name: result for name, result in results.items() if not result.startswith("Success")}


def test_without_a_ledger_only_the_schema_is_checked(check: Check) -> None:
    code, results = check()
    assert (code, list(results)) == (2, ["Database schema"])
    assert results["Database schema"].startswith("Failure: there is no database")


def test_a_ledger_of_an_earlier_revision_is_a_failure_with_the_command_to_run(check: Check, world: World) -> None:
    with world.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
    code, results = check()
    assert (code, list(results)) == (2, ["Database schema"])
    assert "run 'tonnage-manage db sync'" in results["Database schema"]


def test_a_ledger_in_order_has_no_faults(check: Check, world: World) -> None:
    code, results = check()
    assert (code, faults(results)) == (0, {})
    assert len(results) == 11


def test_schedulers_with_different_rules_are_a_failure(check: Check, world: World) -> None:
    beat(world, "two", "10.0")
    code, results = check()
    assert code == 2
    assert faults(results) == {
        "Rules of the schedulers": "Failure: option max_over_subscription_ratio has to be the same for all "
        "schedulers; one: 20.0, two: 10.0"
    }


def test_a_scheduler_that_is_down_need_not_agree(check: Check, world: World) -> None:
    beat(world, "two", "10.0")
    age(world, models.Service, "last_seen_at")
    code, results = check()
    assert code == 1
    assert faults(results) == {
        "Rules of the schedulers": "Warning: no scheduler is up, so nobody can tell whether they agree"
    }


def test_backends_that_are_down_are_named_with_the_reason(check: Check, world: World) -> None:
    age(world, models.Backend, "last_report_at")
    code, results = check()
    assert code == 1
    [(name, details)] = faults(results).items()
    assert name == "Backends that are down"
    assert details.startswith(f"Warning: these backends are down: {BACKEND} (no report for 72")


def test_operations_that_have_not_ended_for_an_hour_are_named(check: Check, world: World) -> None:
    world.create(3)
    assert check()[0] == 0
    age(world, models.Claim, "created_at")
    code, results = check()
    assert code == 1
    [details] = faults(results).values()
    assert details.startswith("Warning: 1 operation(s) have not ended for an hour: create of volume ")
    [(volume_id,)] = world.rows("SELECT id FROM volumes")
    assert volume_id in details


def test_a_wrong_counter_is_named_with_the_command_that_shows_more(check: Check, world: World) -> None:
    with world.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(allocated_capacity_gb=7))
    details = faults(check()[1])["Ledger"]
    assert "counter of host@backend#p0" in details
    assert details.endswith("see 'tonnage-manage ledger check'")


def test_a_default_type_that_does_not_exist_is_a_warning(check: Check, world: World, conf: cfg.ConfigOpts) -> None:
    conf.set_override("default_volume_type", "gold")
    assert faults(check()[1])["Default volume type"].startswith("Warning: option default_volume_type names 'gold'")
    conf.set_override("default_volume_type", "")
    assert check()[0] == 0


def test_the_checks_change_nothing(check: Check, world: World) -> None:
    def content() -> list[object]:
        with world.engine.connect() as connection:
            return [connection.execute(sa.select(table)).all() for table in models.Base.metadata.sorted_tables]

    before = content()
    check()
    assert content() == before
