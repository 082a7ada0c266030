# SPDX-License-Identifier: Apache-2.0
"""``tonnage pools``, ``volumes``, ``types`` and ``claims``: they agree with the ledger at each moment."""

import json
import pathlib
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.cli import command_runs
from tests.unit.cli.conftest import Asked
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors, units
from tonnage.capacity.decision import Refusal, Rejection
from tonnage.capacity.explanation import Explanation, FilterVerdict, PoolVerdict
from tonnage.cli import tonnage
from tonnage.cli.simulation import scheduler_query
from tonnage.extensions.cinder.ledger import probes
from tonnage.ledger import models
from tonnage.ledger.catalog import refusals
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options
from tonnage.rpc import cinder_explanations
from tonnage.rpc.cinder_explanations import PartialExplanation
from tonnage.rpc.messages import SimulationResult


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
        options = {option.dest: option.default for option in database_options.OPTIONS}
        own_database = SimpleNamespace(**{**options, "connection": url})
        self.conf: Any = SimpleNamespace(database=own_database, service_down_time=60, enabled_extensions=[])
        self.program = tonnage.program()
        self._capsys = capsys

    def run(self, line: str, status: int = 0) -> str:
        """Return the output of a command, which has to end with that exit status."""
        assert command_runs.run(self.program, line.split(), self.conf) == status
        return self._capsys.readouterr().out

    def write(self, step: Any, *given: Any) -> None:
        """Run a step in a transaction of the ledger."""
        database.Database(self.engine).run(step, *given)

    def json(self, line: str, status: int = 0) -> Any:
        return json.loads(self.run(f"{line} -f json", status))


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


def test_the_bound_of_thin_volumes_is_null_for_a_pool_without_any(ledger: Ledger) -> None:
    row = {row["pool"]: row for row in ledger.json("pools")}[f"{BACKEND}#p1"]
    assert (row["virtual_limit_bytes"], row["virtual_left_bytes"]) == (None, None)
    assert row["physical_left_bytes"] == gib(10)


def test_volumes_are_selected_by_pool_status_project_and_type(ledger: Ledger) -> None:
    ledger.world.create(1, 2, 3)
    ledger.world.settle()
    rows = ledger.json("volumes")
    assert sorted(row["size_bytes"] for row in rows) == [gib(1), gib(2), gib(3)]
    assert {row["status"] for row in rows} == {"available"}
    pool, project = rows[0]["pool"], rows[0]["project_id"]
    assert ledger.json(f"volumes --pool {pool}") == [row for row in rows if row["pool"] == pool]
    assert ledger.json(f"volumes --pool {BACKEND} --project {project} --status available") == rows
    for nothing in ("--status error", "--project another"):
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
    shown = ledger.run("pools")
    assert "down, was 20 GiB, 2 h ago" in shown
    assert "None of 2 pool(s) is up" in shown
    assert {row["state"] for row in ledger.json("pools")} == {"down"}
    assert all(row["silence_seconds"] >= 7200 for row in ledger.json("pools"))
    assert {row["physical_left_bytes"] for row in ledger.json("pools")} == {None}


def test_an_empty_ledger_is_said_to_be_empty(ledger: Ledger) -> None:
    assert ledger.run("volumes") == "There is no such volume\n"
    assert ledger.run("claims") == "No operation is under way\n"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("pools --backend h@b", "backend h@b"),
        ("volumes --pool h@b", "h@b"),
        ("volumes --pool h@b#p", "h@b#p"),
        ("volumes --type gold", "volume type gold"),
        ("refusals --pool h@b#p", "h@b#p"),
        ("refusals --summary --pool h@b", "h@b"),
    ],
)
def test_a_name_that_the_ledger_does_not_know_is_an_error(ledger: Ledger, line: str, named: str) -> None:
    with pytest.raises(errors.NotFound, match=f"^{named} could not be found"):
        ledger.run(line)


def test_the_sums_are_those_of_the_pools_that_are_up(ledger: Ledger) -> None:
    ledger.world.create(4)
    assert ledger.run("pools").endswith("2 of 2 pool(s) up: total 30 GiB, free 30 GiB, in flight 4 GiB\n")


def test_a_pool_is_shown_with_all_that_belongs_to_it(ledger: Ledger) -> None:
    [made] = ledger.world.create(4)
    pool = next(row for row in ledger.json("pools") if row["in_flight_bytes"])
    name = pool["pool"]
    ledger.world.create(60)
    shown = ledger.json(f"pool {name}")
    assert {key: shown[key] for key in ("pool", "allocated_bytes", "in_flight_bytes")} == {
        key: pool[key] for key in ("pool", "allocated_bytes", "in_flight_bytes")
    }
    assert [(each["verb"], each["size_bytes"]) for each in shown["claims"]] == [("create", gib(4))]
    assert shown["claims"][0]["age_seconds"] >= 0
    assert [each["id"] for each in shown["volumes"]] == [made.volume_id]
    assert (shown["findings"], shown["sharing"]) == ([], [])
    nearest = ledger.json("refusals")[0]["pool"] if ledger.json("refusals") else None
    assert [each["pool"] for each in ledger.json(f"pool {nearest}")["refusals"]] == [nearest]
    ledger.world.settle()
    assert ledger.json(f"pool {name}")["claims"] == []
    table = ledger.run(f"pool {name}")
    assert "Claims in flight: none" in table
    assert "Volumes: 1" in table
    assert ledger.run(f"pool {name} -f value -c pool -c state") == f"{name}\nup\n"
    with pytest.raises(errors.NotFound, match="pool h@b#p could not be found"):
        ledger.run("pool h@b#p")


def test_pools_of_one_storage_name_each_other(ledger: Ledger) -> None:
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(storage_id="array"))
    assert [each["pool"] for each in ledger.json(f"pool {BACKEND}#p0")["sharing"]] == [f"{BACKEND}#p1"]
    assert "total 20 GiB" in ledger.run("pools")


def test_drift_is_found_with_its_cause_and_status_3(ledger: Ledger) -> None:
    assert ledger.run("drift") == "2 pool(s) checked: the ledger is right\n"
    assert ledger.json("drift") == []
    ledger.world.create(4)
    assert {row["cause"] for row in ledger.json("drift --all")} == {"in_flight"}
    with ledger.engine.begin() as connection:
        name = f"{BACKEND}#p0"
        wrong = models.Pool.allocated_capacity_gb + 3
        connection.execute(sa.update(models.Pool).where(models.Pool.name == name).values(allocated_capacity_gb=wrong))
    [row] = ledger.json("drift", status=3)
    assert (row["cause"], row["where"], row["is_drift"], row["is_mended_by_repair"]) == ("counter", name, True, True)
    assert row["ledger_bytes"] - row["found_bytes"] == gib(3)
    assert "allocated_capacity_gb" in ledger.run("drift", status=3)
    assert ledger.json(f"drift --pool {BACKEND}#p1") == []


def test_refusals_are_shown_and_counted(ledger: Ledger) -> None:
    assert ledger.run("refusals") == "No refusal is recorded\n"
    assert ledger.json("refusals --summary") == []
    ledger.world.create(50)
    ledger.world.create(60)
    rows = ledger.json("refusals")
    assert [row["request"] for row in rows] == ["60 GiB", "50 GiB"]
    assert {(row["verb"], row["filter"], row["code"]) for row in rows} == {("create", "CapacityFilter", "no_capacity")}
    assert rows[0]["largest_size_bytes"] == gib(40)
    assert rows[0]["message"].startswith("No pool for 60 GiB: 2 pools; CapacityFilter refused 2, nearest ")
    [counted] = ledger.json("refusals --summary")
    assert (counted["code"], counted["refusals"]) == ("no_capacity", 2)
    assert counted["day"] == rows[0]["refused_at"][:10]
    assert ledger.json(f"refusals --pool {rows[0]['pool']} --rows 1") == rows[:1]
    assert ledger.json(f"refusals --pool {BACKEND}") == rows
    assert ledger.run("refusals --code quota") == "No such refusal is recorded\n"
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Refusal).where(models.Refusal.request == "50 GiB").values(verb="extend"))
    assert len(ledger.json("refusals --summary --rows 1")) == 1
    assert len(ledger.json("refusals --summary --rows 0")) == 2
    with pytest.raises(SystemExit):
        ledger.run("refusals -c day")


def explanation(chosen: str, other: str) -> Explanation:
    refused = Rejection("no_capacity", "has headroom 2.00 GiB")
    verdicts = (
        PoolVerdict(
            other, "CapacityFilter", refused, headroom=2.0, also=(FilterVerdict("F", Rejection("x", "is odd")),)
        ),
        PoolVerdict(chosen, total_weight=1.0, headroom="infinite", thin=True),
    )
    return Explanation("4 GiB", chosen, f"4 GiB goes to {chosen}", verdicts)


def test_why_shows_the_request_the_claims_and_the_same_decision_now(ledger: Ledger, asked: Asked) -> None:
    [made] = ledger.world.create(4)
    other = next(pool for pool in (f"{BACKEND}#p0", f"{BACKEND}#p1") if pool != made.pool)
    asked.outlooks = [SimulationResult(volumes=[explanation(made.pool, other)])]
    shown = ledger.json(f"why {made.volume_id}")
    assert asked.questions == [{"requests": [{"volume": {"size": 4}}], "detail": True}]
    assert (shown["pool"], shown["size_bytes"], shown["pool_now"]) == (made.pool, gib(4), made.pool)
    assert shown["reason"] == f"placed here by request {shown['request_id']}"
    assert [(each["verb"], each["pool"]) for each in shown["claims"]] == [("create", made.pool)]
    assert [(each["pool"], each["verdict"]) for each in shown["pools"]] == [(made.pool, "chosen"), (other, "refused")]
    assert (shown["pools"][0]["headroom_bytes"], shown["pools"][1]["headroom_bytes"]) == (None, gib(2))
    assert shown["pools"][1]["because"] == "CapacityFilter: has headroom 2.00 GiB; F: is odd"
    assert ledger.json(f"why {shown['request_id']}")["volume_id"] == made.volume_id
    assert f"4 GiB goes to {made.pool}" in ledger.run(f"why {made.volume_id}")


def test_why_shows_a_refused_request_and_asks_it_again(ledger: Ledger, asked: Asked) -> None:
    asked.outlooks = [SimulationResult(volumes=[Explanation("60 GiB", None, "No pool for 60 GiB", ())])]
    [answer] = ledger.world.create(60)
    [row] = ledger.json("refusals")
    for name in (row["request_id"], answer.volume_id):
        shown = ledger.json(f"why {name}")
        assert (shown["status"], shown["pool"], shown["reason"]) == (None, None, row["message"])
        assert [each["message"] for each in shown["refusals"]] == [row["message"]]
        assert asked.questions.pop() == {"requests": [{"volume": {"size": 60}}], "detail": True}
        assert shown["pools"] == []
    with pytest.raises(errors.NotFound, match="nothing could not be found"):
        ledger.run("why nothing")


def test_why_asks_a_scheduler_of_cinder_for_the_nearest_pools(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(conf: object, request: Any, exchange: str, most: int | None) -> PartialExplanation:
        asked.append((request, exchange, most))
        verdict = PoolVerdict("h@b#p", "OddFilter", Rejection("refused", "is refused"))
        return PartialExplanation(Explanation("60 GiB", None, "No pool for 60 GiB", (verdict,)), 7)

    monkeypatch.setattr(cinder_explanations, "ask", ask)
    body = refusals.cinder_body(exchange="openstack", request={"spec": {"size": 60}})
    for number, request_body in enumerate((body, None)):
        refused = refusals.RefusedRequest(
            request_id=f"req-{number}",
            volume_id=str(uuid.UUID(int=number)),
            project_id="p",
            verb="create",
            refusal=Refusal("60 GiB", 7),
            body=request_body,
        )
        ledger.write(refusals.insert, [refused])
    names_bus = iter([False, True, True])
    monkeypatch.setattr(scheduler_query, "names_bus", lambda conf: next(names_bus))
    assert "not asked: transport_url" in ledger.run("why req-0")
    shown = ledger.run("why req-0 --rows 1")
    assert "The same request now: 7" in shown
    assert "OddFilter: is refused" in shown
    assert "6 more: --rows 0 shows all" in shown
    assert ledger.json("why req-0")["decision_now"] == "No pool for 60 GiB"
    assert "60 GiB" in ledger.run("why req-0 -c reason")
    assert asked == [({"spec": {"size": 60}}, "openstack", most) for most in (1, None)]
    assert "'tonnage explain' asks" in ledger.run("why req-1")
    ledger.write(probes.observe, "real@b1", "nova", "cinder")
    assert "only those whose pools a scheduler refused" in ledger.run("why req-1")


def test_why_names_the_reason_of_a_volume_in_error_and_the_pools_that_failed(ledger: Ledger) -> None:
    [made] = ledger.world.create(4)
    ledger.world.create(3)
    with ledger.engine.begin() as connection:
        values = {
            "pool_id": None,
            "status": "error",
            "status_reason": "the disk is broken",
            "attempted_pools": ["h@b#p"],
        }
        connection.execute(sa.update(models.Volume).where(models.Volume.id == made.volume_id).values(values))
    shown = ledger.json(f"why --offline {made.volume_id}")
    assert (shown["reason"], shown["attempted_pools"]) == ("the disk is broken", ["h@b#p"])
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Volume).values(name="data", attempted_pools=["h@b#p"]))
    listed = ", ".join(sorted(row["id"] for row in ledger.json("volumes")))
    with pytest.raises(
        errors.InvalidInput, match=f"several volumes are named data: give the id of one, such as {listed}"
    ):
        ledger.run("why --offline data")
    placed = next(row for row in ledger.json("volumes") if row["pool"])
    assert ledger.json(f"why --offline {placed['id']}")["reason"].endswith(", after h@b#p failed to create it")


def test_why_says_if_no_scheduler_answers(ledger: Ledger, asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    asked.error = errors.Unavailable("no scheduler answers")
    [made] = ledger.world.create(4)
    assert command_runs.run(ledger.program, ["why", made.volume_id], ledger.conf) == 1
    shown = capsys.readouterr()
    assert "placed here by request" in shown.out
    assert shown.out.endswith("The same request now: unknown, for the reason on standard error\n")
    assert shown.err == "tonnage: how the request would be decided now is unknown: no scheduler answers\n"
