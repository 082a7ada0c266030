# SPDX-License-Identifier: Apache-2.0
"""The overview of the capacity, from rows of the ledger."""

import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.extensions.page.overviews import DOWN_TIME, add, backends, read, thin
from tonnage.cli.overviews import pools
from tonnage.extensions.history import history_writer, tables
from tonnage.extensions.page import overview_resources
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.inventory.overviews import OVERVIEWS


def test_physical_and_promised_are_apart(ledger: database.Database) -> None:
    counters = {"in_flight_gb": 20, "in_flight_physical_gb": 5, "allocated_capacity_gb": 120}
    report = thin(100, 60, reserved_percentage=10, provisioned_capacity_gb=100, row=counters)
    add(ledger, "box@a", {"p": report})
    found, summary = read(ledger)
    pool = found["p"]
    assert (pool.total_gb, pool.used_gb, pool.in_flight_physical_gb, pool.reserved_gb) == (100, 40, 5, 10)
    assert pool.physical_left_gb == 45
    assert (pool.promised_gb, pool.in_flight_gb, pool.promise_limit_gb, pool.promise_left_gb) == (120, 20, 200, 80)
    assert (pool.physical_percent, pool.promised_percent, pool.full_percent) == (50, 60, 60)
    assert (pool.headroom_thin_gb, pool.headroom_thick_gb) == (80, None)
    assert summary.physical.left_gb == 45
    assert summary.promised.left_gb == 80


def test_old_figures_are_left_out_of_the_sums(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 60)})
    add(ledger, "box@b", {"q": thin(1000, 900)}, silence=600)
    add(ledger, "box@c", {"r": thin(1000, 900)}, enabled=False, disabled_reason="new disks")
    add(ledger, "box@d", {"s": thin(1000, 900)}, enabled=False, draining=True)
    found, summary = read(ledger)
    assert {name: (pool.state, pool.stale) for name, pool in found.items()} == {
        "p": ("up", False), "q": ("down", True), "r": ("disabled", False), "s": ("draining", False),
    }  # fmt: skip
    assert found["r"].state_reason == "new disks"
    assert summary.physical.total_gb == 100
    assert (summary.left_out.stale, summary.left_out.disabled, summary.left_out.unknown) == (1, 2, 0)
    assert (summary.backends.total, summary.backends.current) == (4, 3)


def test_pools_with_old_figures_come_after_the_fullest(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 60), "q": thin(100, 40)})
    add(ledger, "box@b", {"r": thin(1000, 1)}, silence=600)
    found, _ = read(ledger)
    fullest = overview_resources._Selection("", "", "", "", "full_percent", descending=True).of(found.values())
    assert [pool.name for pool in fullest] == ["box@a#q", "box@a#p", "box@b#r"]


def test_figures_that_the_last_report_lacks_are_old(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 60), "q": thin(100, 60)})
    with orm.Session(ledger.engine) as session:
        [backend] = session.scalars(sa.select(models.Backend))
        pool = session.scalars(sa.select(models.Pool).where(models.Pool.name == "box@a#q")).one()
        pool.unheard_at = backend.last_report_at
        pool.figures_at = backend.last_report_at - datetime.timedelta(seconds=300)
        session.commit()
    found, summary = read(ledger)
    assert (found["q"].state, found["q"].stale, found["p"].stale) == ("up", True, False)
    assert found["q"].collected_at < found["p"].collected_at  # type: ignore[operator]
    assert summary.left_out.stale == 1


def test_unknown_and_infinite_are_words_and_not_part_of_sums(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin("infinite", "infinite"), "q": thin("unknown", "unknown"), "r": thin(10, 10)})
    found, summary = read(ledger)
    assert (found["p"].total_gb, found["p"].promise_limit_gb, found["p"].headroom_thin_gb) == ("infinite",) * 3
    assert (found["q"].total_gb, found["q"].used_gb, found["q"].physical_percent) == ("unknown", "unknown", None)
    assert (summary.physical.total_gb, summary.left_out.unknown) == (10, 2)


def test_the_bound_that_is_reached_first_is_the_forecast(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 60), "q": thin(100, 60), "r": thin(100, 60)})
    with orm.Session(ledger.engine) as session:
        ids = {row.name: row.id for row in session.scalars(sa.select(models.Pool))}
        today = history_writer.database_time(session).replace(hour=0, minute=0, second=0, microsecond=0)
        known = {"made_on": today, "known_days": 30, "low_gb": 1.0, "high_gb": 5.0}
        for bound, days in (("physical", 30.0), ("promised", 12.5)):
            ranges = {"p10_days": days - 3, "p50_days": days, "p90_days": days + 3}
            session.add(tables.PoolForecast(pool_id=ids["box@a#p"], bound=bound, **known, **ranges))
        session.add(tables.PoolForecast(pool_id=ids["box@a#q"], bound="physical", **known))
        session.commit()
    found, _ = read(ledger)
    assert found["p"].forecast is not None
    assert found["p"].forecast.startswith("full in ")
    assert 11 < (found["p"].full_in_days or 0) <= 12.5
    assert (found["q"].forecast, found["q"].full_in_days) == ("not within 90 days", None)
    assert (found["r"].forecast, found["r"].full_in_days) == (None, None)


def test_a_shared_storage_counts_once(ledger: database.Database) -> None:
    whole = thin(100, 60, storage_id="array", provisioned_capacity_gb=50)
    add(ledger, "box@a", {"p": dict(whole), "q": dict(whole)})
    parts = thin(100, 60, storage_id="other", storage_free_capacity_gb=500)
    add(ledger, "box@b", {"r": dict(parts), "s": dict(parts)})
    _, summary = read(ledger)
    assert summary.summed_pools == 4
    assert summary.physical.total_gb == 100 + 200
    assert summary.promised.promised_gb == 50


def test_the_parts_of_a_storage_have_its_rest_together(ledger: database.Database) -> None:
    def part(limit: float) -> dict[str, Any]:
        claims = {"storage_free_gb": 31.0, "shared_in_flight_physical_gb": 2}
        return thin(limit, min(limit, 31.0), storage_id="disk", storage_free_capacity_gb=31.0, row=claims)

    add(ledger, "box@a", {"p": part(40), "q": part(30), "r": part(6)})
    add(ledger, "box@b", {"s": thin(100, 60)})
    found, summary = read(ledger)
    assert [found[name].physical_left_gb for name in "pqrs"] == [29, 29, 6, 60]
    assert summary.physical.left_gb == 29 + 60
    assert summary.physical.total_gb == 76 + 100


@pytest.mark.parametrize(("storage_free", "left"), [(500.0, 9.0), (8.0, 3.0)], ids=["own limit", "storage"])
def test_what_is_left_of_a_part_is_that_of_the_command(
    ledger: database.Database, storage_free: float, left: float
) -> None:
    # Another part of the storage has a claim of 5 GiB.
    claims = {"shared_in_flight_physical_gb": 5, "physical_limit_gb": 9.0, "storage_free_gb": storage_free}
    report = thin(10, 9, storage_id="disk", storage_free_capacity_gb=storage_free, row=claims)
    add(ledger, "box@a", {"p": report})
    with ledger.reading() as session:
        [state] = OVERVIEWS["pools"].page(session, {}, DOWN_TIME)
    row = pools.PoolRow(*state)
    found, _ = read(ledger)
    assert row.physical_left_gb == found["p"].physical_left_gb == left


def test_a_pool_without_thin_volumes_may_promise_what_it_has(ledger: database.Database) -> None:
    report = {
        "total_capacity_gb": 100,
        "free_capacity_gb": 100,
        "reserved_percentage": 10,
        "max_over_subscription_ratio": 20.0,
    }
    add(ledger, "box@a", {"p": {**report, "thick_provisioning_support": True}})
    found, _ = read(ledger)
    assert (found["p"].promise_limit_gb, found["p"].headroom_thin_gb, found["p"].headroom_thick_gb) == (90, None, 90)


def test_a_report_that_cannot_be_used_is_unknown(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": {"total_capacity_gb": -1, "free_capacity_gb": "x"}})
    found, summary = read(ledger)
    assert (found["p"].total_gb, summary.left_out.unknown) == ("unknown", 1)


def test_an_empty_ledger_has_an_empty_overview(ledger: database.Database) -> None:
    found, summary = read(ledger)
    assert found == {}
    assert (summary.pools, summary.backends.total, summary.backends.oldest_collected_at) == (0, 0, None)


def test_the_state_of_a_pool_has_the_notice_of_its_agent(ledger: database.Database) -> None:
    notice = {"notice": "failing", "notice_text": "not mounted", "notice_at": models.utcnow()}
    add(ledger, "h@a", {"p": thin(100, 50)}, **notice)
    add(ledger, "h@b", {"q": thin(100, 50)}, silence=90.0, **notice)
    pools, _ = read(ledger)
    assert (pools["p"].state, pools["p"].state_reason) == ("up", "its agent cannot report: not mounted")
    silent = "no report for more than 60 seconds (service_down_time)"
    assert (pools["q"].state, pools["q"].state_reason) == ("down", f"{silent}; its agent cannot report: not mounted")


def test_the_excess_of_a_pool_does_not_take_the_room_of_others(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(36, 30, 1.0, provisioned_capacity_gb=144)})
    add(ledger, "box@b", {"q": thin(166, 166, 1.0, provisioned_capacity_gb=58)})
    found, summary = read(ledger)
    assert (found["p"].promise_excess_gb, found["q"].promise_excess_gb) == (108, 0)
    promised = summary.promised
    assert (promised.limit_gb, promised.promised_gb, promised.left_gb, promised.excess_gb) == (202, 202, 108, 108)
    assert promised.limit_gb == promised.promised_gb - promised.excess_gb + promised.left_gb


def test_a_reserve_that_data_uses_is_a_physical_excess(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 4, reserved_percentage=10), "q": thin(100, 50, reserved_percentage=10)})
    found, summary = read(ledger)
    assert (found["p"].severity, found["p"].physical_severity, found["p"].promised_severity) == ("over", "over", "rest")
    physical = summary.physical
    assert (physical.excess_gb, physical.left_gb) == (6, 40)
    assert physical.total_gb == physical.used_gb + physical.left_gb + physical.reserved_gb - physical.excess_gb


def test_pools_have_severities_and_these_are_counted(ledger: database.Database) -> None:
    pools_by_severity = {
        "over": thin(100, 90, 1.0, provisioned_capacity_gb=101),
        "full": thin(100, 90, 1.0, provisioned_capacity_gb=100),
        # No volume fits, although neither bound is reached: one of the storage's other pools has a claim.
        "shared": thin(100, 90, storage_id="disk", storage_free_capacity_gb=0.5, row={"storage_free_gb": 0.5}),
        "near": thin(100, 14),
        "rest": thin(100, 15),
        "unknown": thin("unknown", "unknown"),
    }
    add(ledger, "box@a", {name: dict(report) for name, report in pools_by_severity.items()})
    add(ledger, "box@b", {"old": thin(100, 0)}, silence=600)
    found, summary = read(ledger)
    expected = {name: name for name in pools_by_severity} | {"shared": "full", "unknown": None, "old": None}
    assert {name: pool.severity for name, pool in found.items()} == expected
    counts = summary.fullness
    assert (counts.over, counts.full, counts.near, counts.rest) == (1, 2, 1, 1)


def test_a_full_pool_is_full_whatever_its_forecast_says(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 60, 1.0, provisioned_capacity_gb=100), "q": thin(100, 0, 1.0)})
    with orm.Session(ledger.engine) as session:
        today = history_writer.database_time(session).replace(hour=0, minute=0, second=0, microsecond=0)
        [pool_id] = session.scalars(sa.select(models.Pool.id).where(models.Pool.name == "box@a#p"))
        ranges = {"p10_days": 5.0, "p50_days": 5.5, "p90_days": 6.0, "low_gb": 1.0, "high_gb": 5.0}
        session.add(tables.PoolForecast(pool_id=pool_id, bound="promised", made_on=today, known_days=30, **ranges))
        session.commit()
    found, _ = read(ledger)
    assert {(pool.forecast, pool.full_in_days) for pool in found.values()} == {("full", 0.0)}


def test_backends_have_their_states_and_the_sums_of_their_pools(ledger: database.Database) -> None:
    add(ledger, "box@b", {"p": thin(100, 0, row={"allocated_capacity_gb": 7}), "q": thin(100, 60)})
    add(ledger, "box@a", {}, silence=600)
    shown = backends(ledger)
    assert [(backend.name, backend.state, backend.pools) for backend in shown] == [
        ("box@a", "down", 0),
        ("box@b", "up", 2),
    ]
    assert (shown[1].allocated_gb, shown[1].fullness.full, shown[1].fullness.rest) == (7, 1, 1)
    # A backend that its agent has withdrawn reports no pools, and its volumes are still in the ledger.
    with orm.Session(ledger.engine) as session:
        session.execute(sa.update(models.Pool).values(present=False))
        session.commit()
    assert [(backend.pools, backend.allocated_gb) for backend in backends(ledger)] == [(0, 0), (0, 7)]
    assert "service_down_time" in (shown[0].state_reason or "")


def test_a_pool_whose_driver_reports_it_as_down_is_down(ledger: database.Database) -> None:
    add(ledger, "h@a", {"p": thin(100, 50, backend_state="down"), "q": thin(100, 50, backend_state="up")})
    pools, summary = read(ledger)
    assert (pools["p"].state, pools["p"].state_reason) == ("down", "its driver reports backend_state down")
    assert (pools["q"].state, summary.left_out.stale) == ("up", 1)
