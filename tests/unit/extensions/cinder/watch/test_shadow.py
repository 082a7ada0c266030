# SPDX-License-Identifier: Apache-2.0
"""The pipeline of the shadow: tap, messages, rows, record."""

import json
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.servers import ledger_schema
from tests.unit.extensions.cinder.watch.quota_uses import quota_use
from tests.unit.extensions.cinder.watch.scenes import POOL, command, report, request, rows, rules, volume
from tonnage.capacity import errors
from tonnage.extensions.cinder.decoding.cinder_rows import Changes, ServiceRow
from tonnage.extensions.cinder.quota.quota_drift import ResourceUse
from tonnage.extensions.cinder.watch import shadow as shadow_module
from tonnage.extensions.cinder.watch.bus_tap import Delivery
from tonnage.extensions.cinder.watch.findings import Category, Cause, Finding, Gap
from tonnage.extensions.cinder.watch.shadow import Observations, Results, Settings, Shadow
from tonnage.extensions.cinder.watch.shadow_record import ShadowRecord
from tonnage.extensions.cinder.watch.verdicts import Verdict
from tonnage.ledger.db import database

SETTINGS = Settings(rules=rules(), default_ratio=20.0, poll_interval=0.0, full_poll_interval=0.0)

_RECORDED = pathlib.Path(__file__).parents[3] / "capacity" / "reports" / "cinder_messages.jsonl"


class Rows:
    """Rows of Cinder as the test sets them; None: the database is away."""

    def __init__(self, changes: Changes | None = None) -> None:
        self.changes = changes

    def read(self, *, complete: bool) -> Changes:
        if self.changes is None:
            raise errors.Unavailable("it is away")
        return self.changes


class Quotas:
    """The use of quotas as the test sets it, in each turn."""

    def __init__(self, *turns: Sequence[ResourceUse]) -> None:
        self._turns = list(turns)

    def read(self, _now: float) -> Sequence[ResourceUse] | None:
        return self._turns.pop(0) if self._turns else None


class Tap:
    """A tap with the deliveries of the test; the shadow ends after the last turn."""

    def __init__(self, *turns: Sequence[Delivery | Gap]) -> None:
        self._turns = list(turns)
        self.shadow: Shadow | None = None
        self.is_connected = True
        self.closed = False

    def receive(self, _seconds: float) -> Sequence[Delivery | Gap]:
        if not self._turns:
            assert self.shadow is not None
            self.shadow.end()
            return []
        return self._turns.pop(0)

    def close(self) -> None:
        self.closed = True


def _real_rows() -> Changes:
    """Return the rows of the services at the time of the recorded messages."""
    services = [
        ServiceRow(backend=f"real@{name}", enabled=True, availability_zone="nova", silent=0.0) for name in ("b1", "b2")
    ]
    return rows(1795645600.0, services=tuple(services))


def recorded() -> list[Delivery]:
    """Return the recorded messages of a real Cinder."""
    found = [json.loads(line) for line in _RECORDED.read_text().splitlines()]
    return [
        Delivery(exchange=each["exchange"], routing_key=each["routing_key"], body=json.dumps(each["body"]))
        for each in found
    ]


@pytest.fixture
def own() -> Iterator[database.Database]:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    found = database.Database(engine, 2)
    yield found
    found.close()


def run(own: database.Database, tap: Tap, read: Any, quotas: "Quotas | None" = None) -> ShadowRecord:
    """Run a shadow over the turns of a tap, and return its record."""
    record = ShadowRecord(own)
    tap.shadow = Shadow(tap, read, quotas or Quotas(), record, SETTINGS)  # type: ignore[arg-type]
    tap.shadow.run()
    assert tap.closed
    return record


def observations() -> Observations:
    found = Observations(SETTINGS)
    found.gap(Gap(Cause.START), 0.0)
    found.message(report(1000, 0), 0.0)
    found.rows(rows(1001), 0.5, 0.5)
    found.take_results()
    return found


def test_the_messages_of_a_real_cinder_are_judged_and_recorded(own: database.Database) -> None:
    """Each request has its command, or no decision: the volumes are not in the rows of this test."""
    record = run(own, Tap([Gap(Cause.START)], [], recorded()), Rows(_real_rows()))
    decisions = {each.verdict: each.decisions for each in record.totals()}
    assert decisions == {"agreed": 4, "not_judged": 1}
    assert [(each.verb, each.requests) for each in record.unjudged()] == [("create_snapshot", 1)]
    for kind in (Category.OVER_COMMITMENT, Category.ALLOCATED_DRIFT, Category.STALE_REPORT, Category.WRONG_REPORT):
        assert record.findings(kind) == []
    [gap] = record.findings(Category.GAP)
    assert gap["code"] == "start"
    assert gap["ended_at"] is not None


def test_a_message_that_is_not_understood_stops_nothing(
    own: database.Database, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Delivery(exchange="openstack", routing_key="cinder-scheduler", body="{")
    record = run(own, Tap([], [], [broken, *recorded()]), Rows(_real_rows()))
    assert sum(each.decisions for each in record.totals()) == 5
    assert "a message to cinder-scheduler is not understood" in caplog.text


def test_a_database_that_is_away_is_one_gap_and_one_line(
    own: database.Database, caplog: pytest.LogCaptureFixture
) -> None:
    read = Rows(None)
    record = run(own, Tap([], [], recorded()), read)
    assert {(gap["code"], gap["ended_at"]) for gap in record.findings(Category.GAP)} == {
        ("start", None),
        ("database", None),
    }
    assert caplog.text.count("Cinder's database cannot be read: it is away") == 1
    assert {each.verdict for each in record.totals()} == {"not_judged"}
    read.changes = _real_rows()
    assert all(gap["ended_at"] for gap in run(own, Tap([]), read).findings(Category.GAP))


def test_nothing_is_read_while_the_bus_is_away(own: database.Database) -> None:
    """The refusal of an extend looks in the rows as its end; its command would have told."""
    tap = Tap([], [])
    tap.is_connected = False
    record = run(own, tap, Rows(rows(1001)))
    [gap] = record.findings(Category.GAP)
    assert (gap["code"], gap["ended_at"]) == ("start", None)
    assert len(record.periods()) == 1


def test_a_gap_that_begins_and_ends_in_one_turn_has_ended(own: database.Database) -> None:
    settings = replace(SETTINGS, full_poll_interval=3600.0)
    record, tap = ShadowRecord(own), Tap([Gap(Cause.START)], [])
    tap.shadow = Shadow(tap, Rows(_real_rows()), Quotas(), record, settings)  # type: ignore[arg-type]
    tap.shadow.run()
    [gap] = record.findings(Category.GAP)
    assert gap["ended_at"] is not None


def test_a_mended_report_ends_its_finding_in_the_same_run() -> None:
    seen = observations()
    seen.message(report(1010, -5), 1.0)
    seen.rows(rows(1011), 2.0, 2.0)
    [broken] = seen.take_results().findings.values()
    assert broken.category is Category.WRONG_REPORT
    seen.message(report(1020, 0), 3.0)
    seen.rows(rows(1021), 4.0, 4.0)
    assert seen.take_results().ended == {broken.key}


def test_decisions_are_kept_until_the_record_can_be_written(
    own: database.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = ShadowRecord.write, iter([True, True])

    def fail_twice(record: ShadowRecord, *results: Any) -> None:
        if next(failures, False):
            raise errors.Unavailable("the disk is slow")
        write(record, *results)

    monkeypatch.setattr(ShadowRecord, "write", fail_twice)
    record = run(own, Tap([], recorded(), [], [], [], []), Rows(_real_rows()))
    assert sum(each.decisions for each in record.totals()) == 5


def test_old_records_go(own: database.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned: list[int] = []
    monkeypatch.setattr(ShadowRecord, "prune", lambda _record, days: pruned.append(days))
    monkeypatch.setattr(shadow_module, "_PRUNE_INTERVAL", 0.0)
    run(own, Tap([]), Rows(rows(1001)))
    assert set(pruned) == {30}


def test_a_lost_message_makes_the_open_requests_unjudged() -> None:
    seen = observations()
    seen.message(request("v", 10), 1.0)
    seen.gap(Gap(Cause.QUEUE, 7), 2.0)
    [decided], found, _ = seen.take_results()
    [gap] = found.values()
    assert (decided.volume_id, decided.verdict) == ("v", Verdict.NOT_JUDGED)
    assert (gap.code, gap.numbers) == ("queue", {"dropped_at_least": 7.0})
    assert "the broker dropped messages" in gap.text
    seen.message(request("w", 10), 3.0)
    seen.message(command("w", 10), 3.1)
    assert [each.verdict for each in seen.take_results()[0]] == [Verdict.NOT_JUDGED]
    seen.rows(rows(1002), 4.0, 4.0)
    seen.message(request("x", 10), 5.0)
    seen.message(command("x", 10), 5.1)
    decided_later, _, ended = seen.take_results()
    assert [each.verdict for each in decided_later] == [Verdict.AGREED]
    assert ("gap", "watch", "queue") in ended


def test_a_loss_during_a_read_is_no_part_of_it() -> None:
    seen = observations()
    seen.gap(Gap(Cause.QUEUE), 5.0)
    seen.rows(rows(1002), 4.0, 6.0)
    assert ("gap", "watch", "queue") not in seen.take_results()[2]
    seen.rows(rows(1003), 7.0, 8.0)
    assert ("gap", "watch", "queue") in seen.take_results()[2]


def test_messages_that_were_sent_before_a_read_come_before_its_rows(own: database.Database) -> None:
    """The read shows the extended volume; its command is still on its way to the shadow."""
    extend = [each for each in recorded() if "extend_volume" in str(each.body)]
    assert len(extend) == 2
    grown = volume("e8c61342-0d17-418c-ad55-cfa00b5ab883", 12, "available", 1795645606, "real@b2#a")
    read = Rows(_real_rows())
    before = [each for each in recorded() if each.exchange == "cinder-scheduler_fanout"][:2]

    class Late(Tap):
        def receive(self, seconds: float) -> Sequence[Delivery | Gap]:
            received = super().receive(seconds)
            if extend[0] in received:
                read.changes = replace(_real_rows(), live=(grown,))
            return received

    record = run(own, Late([], [], before, [], [extend[0]], [extend[1]], [], []), read)
    assert {each.verdict: each.decisions for each in record.totals()} == {"agreed": 1}


def test_a_gap_makes_no_report_stale() -> None:
    seen = observations()
    seen.gap(Gap(Cause.CONNECTION), 10.0)
    seen.rows(rows(1002), 1000.0, 1000.0)
    assert {each.category for each in seen.take_results().findings.values()} == {Category.GAP}
    seen.rows(rows(1003), 2000.0, 2000.0)
    assert {each.category for each in seen.take_results().findings.values()} == {Category.STALE_REPORT}


def test_a_finding_that_returns_has_not_ended() -> None:
    finding, gap = Finding(category=Category.GAP, subject="s", code="c", text=""), Results([], {}, set())
    gap.add([], [finding], [])
    gap.add([], [], [finding.key])
    assert gap.ended == {finding.key}
    gap.add([], [finding], [])
    assert (gap.findings, gap.ended) == ({finding.key: finding}, set())


def test_a_gap_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    seen = Observations(SETTINGS)
    for _ in range(3):
        seen.gap(Gap(Cause.DATABASE), 1.0)
    assert len(caplog.messages) == len(seen.take_results().findings) == 1


def test_the_period_of_a_shadow_lasts_until_its_end(own: database.Database) -> None:
    record = ShadowRecord(own)
    extended: list[int] = []
    tap = Tap([], [], [], [])
    tap.shadow = Shadow(tap, Rows(_real_rows()), Quotas(), record, SETTINGS)  # type: ignore[arg-type]
    record.extend_period = lambda: extended.append(len(tap._turns))  # type: ignore[method-assign]
    tap.shadow.run()
    assert len(extended) == 2
    assert extended[-1] == 0, "at its end"


def test_a_slow_look_makes_an_over_commitment_that_is_found() -> None:
    """The look began before the first volume was there; Cinder takes its report as the truth, and places another."""
    seen = observations()
    for name, size in (("v", 30), ("w", 80)):
        seen.message(request(name, size), 1.0)
        seen.message(command(name, size), 1.1)
        if name == "v":
            seen.message(report(1010, 0), 2.0)
    live = (volume("v", 30, "available", 1005), volume("w", 80, "available", 1012))
    seen.rows(rows(1013, *live), 3.0, 3.0)
    seen.message(report(1020, 110), 4.0)
    decided, found, _ = seen.take_results()
    assert [each.verdict for each in decided] == [Verdict.AGREED, Verdict.DOUBTFUL]
    [over] = [each for each in found.values() if each.category is Category.OVER_COMMITMENT]
    assert (over.subject, over.volumes, over.numbers["held"]) == (POOL, ("v", "w"), 110)


def test_drift_of_quotas_is_recorded_until_it_ends(own: database.Database) -> None:
    drifted, mended = [quota_use(counter_in_use=3)], [quota_use(counter_in_use=2)]
    record = run(own, Tap([], [], []), Rows(_real_rows()), Quotas(drifted, drifted))
    [found] = record.findings(Category.QUOTA_DRIFT)
    assert (found["subject"], found["code"], found["ended_at"]) == ("p", "in use volumes", None)
    assert found["numbers"] == {"counter": 3.0, "actual": 2.0, "drift": 1.0}
    record = run(own, Tap([], []), Rows(_real_rows()), Quotas(mended))
    assert record.findings(Category.QUOTA_DRIFT)[0]["ended_at"] is not None
