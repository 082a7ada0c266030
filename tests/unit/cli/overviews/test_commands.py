# SPDX-License-Identifier: Apache-2.0
"""``tonnage pools``, ``volumes``, ``types`` and ``claims``: they agree with the ledger at each moment."""

import json
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import units
from tonnage.cli import tonnage
from tonnage.ledger import models
from tonnage.ledger.db import database


class Ledger:
    """A scheduler with one backend and two pools, and the commands on its ledger."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.engine = database.create_engine(url)
        ledger_schema.create(self.engine)
        figures = {
            "p0": StoragePool(20, 2.0, thin=True, thick=False),
            "p1": StoragePool(10, 1.0, thin=False, thick=True),
        }
        self.world = World(figures, engine=self.engine).started()
        options = {option.dest: option.default for option in database.OPTIONS}
        self._database = SimpleNamespace(**{**options, "connection": url})
        self._capsys = capsys

    def run(self, line: str) -> str:
        """Return the output of a command."""
        given = line.split()
        arguments = tonnage.PROGRAM.parser(given[0]).parse_args(given)
        conf: Any = SimpleNamespace(database=self._database, service_down_time=60)
        assert arguments.run(conf, arguments) == 0
        return self._capsys.readouterr().out

    def json(self, line: str) -> Any:
        return json.loads(self.run(f"{line} -f json"))


@pytest.fixture
def ledger(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Any:
    made = Ledger(f"sqlite:///{tmp_path}/tonnage.sqlite", capsys)
    yield made
    made.engine.dispose()


def gib(number: int) -> int:
    return number * units.GIB


def test_a_claim_is_in_flight_until_a_report_contains_it(ledger: Ledger) -> None:
    ledger.world.create(4)
    before = {row["pool"]: row for row in ledger.json("pools")}
    pool = next(row for row in before.values() if row["allocated_bytes"])
    assert pool["in_flight_bytes"] == pool["allocated_bytes"] == gib(4)
    [claim] = ledger.json("claims")
    assert (claim["verb"], claim["state"], claim["size_bytes"]) == ("create", "pending", gib(4))
    ledger.world.settle()
    after = {row["pool"]: row for row in ledger.json("pools")}[pool["pool"]]
    assert after["in_flight_bytes"] == 0
    assert after["allocated_bytes"] == gib(4)
    assert after["physical_left_bytes"] == after["physical_limit_bytes"]
    assert ledger.json("claims") == []


def test_both_bounds_of_thin_volumes_are_shown_apart(ledger: Ledger) -> None:
    row = {row["pool"]: row for row in ledger.json("pools")}[f"{BACKEND}#p0"]
    assert (row["total_bytes"], row["virtual_left_bytes"], row["physical_left_bytes"]) == (gib(20), gib(40), gib(20))


def test_volumes_are_selected_by_pool_status_project_and_type(ledger: Ledger) -> None:
    ledger.world.create(1, 2, 3)
    ledger.world.settle()
    rows = ledger.json("volumes")
    assert sorted(row["size_bytes"] for row in rows) == [gib(1), gib(2), gib(3)]
    assert {row["status"] for row in rows} == {"available"}
    pool, project = rows[0]["pool"], rows[0]["project_id"]
    assert ledger.json(f"volumes --pool {pool}") == [row for row in rows if row["pool"] == pool]
    assert ledger.json(f"volumes --pool {BACKEND} --project {project} --status available") == rows
    for nothing in ("--status error", "--pool h@b", "--project another", "--type gold"):
        assert ledger.run(f"volumes {nothing}") == "There is no such volume\n"


def test_types_have_the_sums_of_their_volumes(ledger: Ledger) -> None:
    with ledger.engine.begin() as connection:
        connection.execute(sa.insert(models.VolumeType), [{"id": "t", "name": "gold", "is_public": True}])
    ledger.world.create(2, 3)
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Volume).values(volume_type_id="t"))
    sums = {row["name"]: (row["volumes"], row["size_bytes"]) for row in ledger.json("types")}
    assert sums == {"__DEFAULT__": (0, 0), "gold": (2, gib(5))}


def test_a_silent_backend_is_down_and_the_table_says_since_when(ledger: Ledger) -> None:
    assert "| up " in ledger.run("pools")
    with ledger.engine.begin() as connection:
        hours = sa.func.datetime(models.Backend.last_report_at, "-2 hours")
        connection.execute(sa.update(models.Backend).values(last_report_at=sa.type_coerce(hours, sa.String)))
    assert "down, was reported 2:00:0" in ledger.run("pools")
    assert {row["state"] for row in ledger.json("pools")} == {"down"}
    assert all(row["silence_seconds"] >= 7200 for row in ledger.json("pools"))


def test_an_empty_ledger_is_said_to_be_empty(ledger: Ledger) -> None:
    assert ledger.run("volumes") == "There is no such volume\n"
    assert ledger.run("claims") == "No operation is under way\n"
    assert ledger.run("pools --backend another@one") == "No backend has reported such a pool\n"
