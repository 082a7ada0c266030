# SPDX-License-Identifier: Apache-2.0
"""``tonnage why``: where a volume is, why, and where it would go now."""

import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.cli import command_runs
from tests.unit.cli.conftest import Asked
from tests.unit.cli.overviews.overview_ledger import Ledger, gib
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.capacity.decision import Refusal, Rejection
from tonnage.capacity.explanation import Explanation, FilterVerdict, PoolVerdict
from tonnage.cli.rest import connection_arguments
from tonnage.extensions.cinder.ledger import probes
from tonnage.ledger import models
from tonnage.ledger.catalog import refusals
from tonnage.ledger.inventory import backends, drains
from tonnage.rpc import cinder_explanations
from tonnage.rpc.cinder_explanations import PartialExplanation
from tonnage.rpc.messages import SimulationResult


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
    monkeypatch.setattr(connection_arguments, "names_bus", lambda conf: next(names_bus))
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


def test_why_names_the_backend_that_an_operation_waits_for(ledger: Ledger) -> None:
    [waiting] = ledger.world.create(4)
    assert ledger.json(f"why {waiting.volume_id} --offline")["waits_for"] is None
    with ledger.engine.begin() as connection:
        hours = sa.func.datetime(models.Backend.last_report_at, "-2 hours")
        connection.execute(sa.update(models.Backend).values(last_report_at=sa.type_coerce(hours, sa.String)))
    shown = ledger.json(f"why {waiting.volume_id} --offline")
    assert shown["waits_for"].startswith(f"backend {BACKEND} (no report for 72")
    assert f"backend remove {BACKEND} --volumes-are-lost" in shown["waits_for"]
    assert [claim["waits_for"] for claim in shown["claims"]] == [shown["waits_for"]]


def test_why_tells_whether_a_volume_can_leave_a_draining_backend(ledger: Ledger) -> None:
    volume_id = ledger.world.made(4)
    assert ledger.json(f"why {volume_id} --offline")["drain"] is None
    ledger.write(lambda session: backends.set_state(session, BACKEND, enabled=False, draining=True, reason=None))
    leaves = f"backend {BACKEND} is draining, and the volume is to leave it"
    assert ledger.json(f"why {volume_id} --offline")["drain"] == leaves
    ledger.write(drains.record, {volume_id: "No pool for 4 GiB"})
    stays = f"backend {BACKEND} is draining, and the volume stays: No pool for 4 GiB"
    assert ledger.json(f"why {volume_id} --offline")["drain"] == stays
