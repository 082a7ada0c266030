# SPDX-License-Identifier: Apache-2.0
"""The record of the shadow."""

import dataclasses
import datetime
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.extensions.cinder.watch.scenes import POOL
from tonnage.extensions.cinder.ledger import tables
from tonnage.extensions.cinder.watch.findings import Category, Finding
from tonnage.extensions.cinder.watch.shadow_record import ShadowRecord, Unjudged
from tonnage.extensions.cinder.watch.verdicts import Decided, Verdict
from tonnage.ledger.db import database

DECIDED = Decided(
    verb="create_volume",
    request_id="req-1",
    volume_id="v",
    size_gb=10,
    pool=POOL,
    verdict=Verdict.AGREED,
    tonnage_pool=POOL,
    reason="",
    cinder_seconds=0.2,
    tonnage_seconds=0.001,
)
FINDING = Finding(
    category=Category.OVER_COMMITMENT,
    subject=POOL,
    code="limit",
    text="holds 5 more",
    numbers={"held": 105.0},
    volumes=("v",),
)
LONG_AGO = datetime.datetime.fromisoformat("2020-01-01")


@pytest.fixture
def own() -> Iterator[database.Database]:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    found = database.Database(engine, 2)
    yield found
    found.close()


@pytest.fixture
def record(own: database.Database) -> ShadowRecord:
    found = ShadowRecord(own)
    found.load_open()
    return found


def test_decisions_are_counted_by_verdict(record: ShadowRecord) -> None:
    refused = dataclasses.replace(
        DECIDED, verdict=Verdict.WRONG_REFUSAL, pool=None, cinder_seconds=None, tonnage_seconds=0.003
    )
    record.write([DECIDED, dataclasses.replace(DECIDED, cinder_seconds=0.4), refused], [], [])
    agreed, wrong = record.totals()
    assert (agreed.verdict, agreed.decisions, wrong.verdict, wrong.decisions) == ("agreed", 2, "wrong_refusal", 1)
    assert (agreed.cinder_mean, agreed.cinder_most, agreed.tonnage_mean) == pytest.approx((0.3, 0.4, 0.001))
    assert (wrong.cinder_mean, wrong.tonnage_most) == (None, 0.003)
    [row] = record.decisions(["wrong_refusal"])
    assert (row["volume_id"], row["pool"], row["size_gb"]) == ("v", None, 10)


def test_requests_that_are_not_judged_are_counted_by_reason(record: ShadowRecord) -> None:
    snapshot = dataclasses.replace(DECIDED, verb="create_snapshot", verdict=Verdict.NOT_JUDGED, reason="a snapshot")
    gap = dataclasses.replace(DECIDED, verdict=Verdict.NOT_JUDGED, reason="the watch began")
    record.write([snapshot, snapshot, gap, DECIDED], [], [])
    assert record.unjudged() == [
        Unjudged(verb="create_snapshot", reason="a snapshot", requests=2),
        Unjudged(verb="create_volume", reason="the watch began", requests=1),
    ]


def test_a_finding_is_one_row_until_it_ends(record: ShadowRecord) -> None:
    record.write([], [FINDING], [])
    record.write([], [dataclasses.replace(FINDING, text="holds 6 more")], [])
    [row] = record.findings(Category.OVER_COMMITMENT)
    assert (row["text"], row["ended_at"], row["volumes"]) == ("holds 6 more", None, ["v"])
    record.write([], [], [FINDING.key])
    assert record.load_open() == []
    record.write([], [FINDING], [])
    again, first = record.findings(Category.OVER_COMMITMENT)
    assert again["ended_at"] is None
    assert first["ended_at"] is not None


def test_a_finding_that_opens_and_ends_in_one_turn_has_ended(record: ShadowRecord) -> None:
    gap = Finding(category=Category.GAP, subject="watch", code="start", text="the watch began")
    record.write([], [gap], [gap.key])
    [row] = record.findings(Category.GAP)
    assert row["ended_at"] is not None
    assert record.load_open() == []


def test_open_findings_are_known_after_a_restart(record: ShadowRecord, own: database.Database) -> None:
    record.write([], [FINDING], [])
    again = ShadowRecord(own)
    assert again.load_open() == [FINDING]
    again.write([], [FINDING], [])
    assert len(again.findings(Category.OVER_COMMITMENT)) == 1


def test_each_run_of_a_shadow_is_a_period(record: ShadowRecord, own: database.Database) -> None:
    record.extend_period()
    own.run(
        lambda session: session.execute(sa.update(tables.CinderFinding).values(found_at=LONG_AGO, seen_at=LONG_AGO))
    )
    record.extend_period()
    [first] = record.periods()
    assert first["found_at"] < first["seen_at"]
    again = ShadowRecord(own)
    assert again.load_open() == []
    again.extend_period()
    second, ended = again.periods()
    assert (ended["id"], ended["ended_at"]) == (first["id"], first["seen_at"])
    assert second["ended_at"] is None


def test_the_period_of_a_shadow_that_was_frozen_goes_on(record: ShadowRecord, own: database.Database) -> None:
    record.extend_period()
    ShadowRecord(own).extend_period()
    record.extend_period()
    assert [each["ended_at"] for each in record.periods()] == [None, None]
    own.run(lambda session: session.execute(sa.delete(tables.CinderFinding)))
    record.extend_period()
    assert len(record.periods()) == 1


def test_old_decisions_and_ended_findings_go(record: ShadowRecord, own: database.Database) -> None:
    record.write([DECIDED], [FINDING], [])
    own.run(
        lambda session: [
            session.execute(sa.update(tables.CinderDecision).values(decided_at=LONG_AGO)),
            session.execute(sa.update(tables.CinderFinding).values(found_at=LONG_AGO)),
        ]
    )
    record.write([DECIDED], [], [])
    record.prune(30)
    assert sum(each.decisions for each in record.totals()) == 1
    assert len(record.findings(Category.OVER_COMMITMENT)) == 1, "it is open"
    record.write([], [], [FINDING.key])
    own.run(lambda session: session.execute(sa.update(tables.CinderFinding).values(ended_at=LONG_AGO)))
    record.prune(30)
    assert record.findings(Category.OVER_COMMITMENT) == []


def test_a_period_has_its_decisions_and_the_findings_seen_in_it(record: ShadowRecord, own: database.Database) -> None:
    record.write([DECIDED], [FINDING], [])
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    hour = datetime.timedelta(hours=1)
    assert len(record.totals(now - hour)) == len(record.findings(Category.OVER_COMMITMENT, now - hour)) == 1
    assert record.totals(now + hour) == record.findings(Category.OVER_COMMITMENT, now + hour) == []
    assert record.decisions(["agreed"], now + hour) == []
