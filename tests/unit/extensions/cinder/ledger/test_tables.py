# SPDX-License-Identifier: Apache-2.0
"""The rows of the shadow, decisions and findings with texts of another system, and those of growths."""

import datetime
from typing import Any

import pytest
from oslo_db import exception as db_exc

from tests.unit.ledger.records import Records, new_id
from tonnage.extensions.cinder.ledger.tables import CinderDecision, CinderFinding, CinderGrowth

NOON = datetime.datetime.fromisoformat("2026-01-02T12:00:00")


@pytest.fixture
def records() -> Records:
    return Records()


def decision(**values: Any) -> CinderDecision:
    usual = {
        "decided_at": NOON,
        "verb": "create_volume",
        "request_id": "req-1",
        "volume_id": new_id(),
        "size_gb": 3,
        "pool": "h@b#p",
        "verdict": "same",
        "tonnage_pool": "h@b#p",
        "reason": "",
        "tonnage_seconds": 0.001,
    }
    return CinderDecision(**usual | values)


def test_a_refusal_has_no_pool_and_any_text_as_its_reason(records: Records) -> None:
    records.add(decision(pool=None, tonnage_pool=None, reason="no valid backend\0 " + "x" * 70_000))
    [(pool, cinder_seconds, reason)] = records.rows("SELECT pool, cinder_seconds, reason FROM cinder_decisions")
    assert (pool, cinder_seconds, reason[:18], len(reason)) == (None, None, "no valid backend? ", 65_535)


def test_a_volume_may_be_decided_on_more_than_once(records: Records) -> None:
    volume_id = new_id()
    for verb in ("create_volume", "create_volume", "extend_volume"):
        records.add(decision(volume_id=volume_id, verb=verb))
    assert records.rows("SELECT COUNT(DISTINCT id) FROM cinder_decisions") == [(3,)]


def test_a_decision_needs_a_verdict_and_the_time_of_tonnage(records: Records) -> None:
    for missing in ("verdict", "tonnage_seconds"):
        with pytest.raises(db_exc.DBError):
            records.add(decision(**{missing: None}))


def test_pools_of_cinder_need_not_be_in_the_ledger(records: Records) -> None:
    records.add(decision(pool="gone@b#p"))
    assert records.rows("SELECT name FROM pools") == []


def test_a_finding_is_open_until_it_has_ended(records: Records) -> None:
    times = {"found_at": NOON, "seen_at": NOON}
    usual = {"category": "stale_report", "code": "stale", "text": "t", "volumes": ["v"], **times}
    records.add(CinderFinding(subject="h@a", numbers={"age": 200.5}, **usual))
    records.add(CinderFinding(subject="h@b", numbers={}, ended_at=NOON, **usual))
    columns = "subject, numbers, volumes"
    open_findings = records.rows(f"SELECT {columns} FROM cinder_findings WHERE ended_at IS NULL")
    assert open_findings == [("h@a", '{"age":200.5}', '["v"]')]


def test_a_volume_may_grow_again_while_the_record_of_its_growth_is_there(records: Records) -> None:
    times = {"renewed_at": NOON, "changed_at": NOON}
    names = {"request_id": "r", "project_id": "p", "user_id": "u", "source": "h@a#p", "target": "h@b#p"}
    usual = {
        "name_id": "n",
        "size_gb": 1,
        "new_size_gb": 2,
        "state": "moving",
        "reason": "",
        "owner": new_id(),
        **times,
    }
    volume_id = new_id()
    for _ in range(2):
        records.add(CinderGrowth(id=new_id(), volume_id=volume_id, reservations=["a", "b"], **names, **usual))
    assert records.rows("SELECT DISTINCT reservations FROM cinder_growths") == [('["a","b"]',)]
