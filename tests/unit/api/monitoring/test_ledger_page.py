# SPDX-License-Identifier: Apache-2.0
"""The page about the ledger."""

import datetime
import gzip
import math
from collections.abc import Mapping, Sequence

import pytest
import sqlalchemy as sa
from prometheus_client import parser
from sqlalchemy import orm

from tests.unit.scheduler.world import StoragePool, World
from tonnage.api.monitoring.ledger_page import LedgerPage
from tonnage.extensions.history import coming_refusals, history_writer
from tonnage.extensions.history import tables as history_tables
from tonnage.extensions.history.coming_refusals import ComingRefusals
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.ledger import tables as kubernetes_tables
from tonnage.ledger import models

GIB = 2**30


@pytest.fixture
def world() -> World:
    """A thin pool with a volume of 3 GiB at rest and one of 4 GiB in flight, and an empty thick pool."""
    world = World(
        {"thin": StoragePool(20, 2.0, thin=True, thick=False), "thick": StoragePool(2, 1.0, thin=False, thick=True)}
    ).started()
    world.made(3)
    world.create(4)
    return world


def page_of(world: World, max_pools: int = 100, cache_time: float = 0.0, down_time: float = 60.0) -> LedgerPage:
    return LedgerPage(world.database, down_time, max_pools, cache_time)


def samples(page: LedgerPage, backend: str | None = None) -> dict[tuple[str, str], float]:
    """Return the value of each series by its name and the values of its labels."""
    text = gzip.decompress(page.compressed(backend)).decode()
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def pool_values(found: Mapping[tuple[str, str], float], name: str) -> dict[str, float]:
    """Return the figures of a pool in GiB, by the end of the metric's name."""
    [pool] = {label for _, label in found if label.endswith(f"#{name}")}
    return {
        metric.removeprefix("tonnage_pool_").removesuffix("_bytes"): value / GIB
        for (metric, label), value in found.items()
        if label == pool and metric.endswith("_bytes")
    }


def test_pools_have_their_figures_and_both_bounds(world: World) -> None:
    found = samples(page_of(world))
    assert pool_values(found, "thin") == {
        "total": 20,
        "free": 20,
        "provisioned": 3,
        "allocated": 7,
        "in_flight": 4,
        "in_flight_physical": 0,
        "virtual_limit": 40,
        "physical_limit": 20,
    }
    assert pool_values(found, "thick")["free"] == 2
    assert found["tonnage_metrics_pools_omitted", ""] == 0
    assert found["tonnage_volumes", "available"] == 1
    assert found["tonnage_claims", "create pending"] == 1
    assert found["tonnage_claims", "delete pending"] == 0
    assert ("tonnage_claim_oldest_timestamp_seconds", "delete pending") not in found
    assert found["tonnage_ledger_discrepancies", "lost"] == found["tonnage_driver_findings", "two_decimals"] == 0
    assert found["tonnage_volume_type_allocated_bytes", ""] == 7 * GIB


def test_a_part_of_a_storage_has_the_free_space_of_the_storage(world: World) -> None:
    with world.engine.begin() as connection:
        one = models.Pool.name.endswith("#thin")
        connection.execute(sa.update(models.Pool).where(one).values(storage_free_gb=500))
    found = samples(page_of(world))
    assert pool_values(found, "thin")["storage_free"] == 500
    assert "storage_free" not in pool_values(found, "thick")


def add_forecast(world: World, pool: str, bound: str, days: Sequence[float | None], age: float = 0.0) -> None:
    """Add the forecast for a bound of a pool that was made some days ago."""

    def add(session: orm.Session) -> None:
        ids = dict(session.execute(sa.select(models.Pool.name, models.Pool.id)).all())
        now = history_writer.database_time(session)
        row = {"made_on": now - datetime.timedelta(days=age), "known_days": 60, "low_gb": 1.0, "high_gb": 2.0}
        found = dict(zip(("p10_days", "p50_days", "p90_days"), days, strict=True))
        pool_id = next(ids[name] for name in ids if name.endswith(f"#{pool}"))
        session.execute(sa.insert(history_tables.PoolForecast).values(**row, **found, pool_id=pool_id, bound=bound))

    world.database.run(add)


def times_to_full(page: LedgerPage) -> dict[str, float]:
    """Return the times to full in days."""
    return {
        label: value / 86400
        for (name, label), value in samples(page).items()
        if name == "tonnage_pool_time_to_full_seconds"
    }


def test_the_time_to_full_has_the_estimates_below_90_days_of_pools_that_are_up(world: World) -> None:
    add_forecast(world, "thin", "physical", (9.0, 14.0, None))
    add_forecast(world, "thick", "promised", (None, None, None))
    assert times_to_full(page_of(world)) == {
        "host@backend#thin physical p10": pytest.approx(9, abs=0.01),
        "host@backend#thin physical p50": pytest.approx(14, abs=0.01),
    }
    assert times_to_full(page_of(world, down_time=-1.0)) == {}


def test_the_forecast_of_the_day_before_counts_until_there_is_a_new_one(world: World) -> None:
    for pool in ("thin", "thick"):
        add_forecast(world, pool, "physical", (9.0, None, None), age=1)
    add_forecast(world, "thick", "physical", (None, None, None))
    assert times_to_full(page_of(world)) == {"host@backend#thin physical p10": pytest.approx(8, abs=0.01)}


def test_refusals_to_come_are_shares_of_the_runs(world: World) -> None:
    found = [
        ComingRefusals(type_id="", known_days=30, runs=20, refused=12),
        ComingRefusals(type_id="deleted", known_days=6),
    ]
    world.database.run(coming_refusals.store, found)
    series = samples(page_of(world))
    assert series["tonnage_volume_type_coming_refusals_ratio", ""] == 0.6
    now = series["tonnage_metrics_snapshot_timestamp_seconds", ""]
    assert series["tonnage_coming_refusals_timestamp_seconds", ""] == pytest.approx(now, abs=60)


def test_claims_on_drivers_of_clusters_are_counted_until_they_end(world: World) -> None:
    def add(session: orm.Session) -> None:
        now = capacity_claims.now(session)
        for name in ("busy", "idle"):
            session.add(kubernetes_tables.CsiDriver(name=f"{name}.example.com", uid=name, version=1))
        session.flush()
        for holder, seconds in (("one", 60), ("two", 60), ("ended", -1)):
            session.add(
                kubernetes_tables.CsiClaim(
                    holder=holder,
                    volume="v",
                    node="n1",
                    driver_uid="busy",
                    storage_class="fast",
                    pool="p",
                    size=3 * GIB,
                    expires_at=now + datetime.timedelta(seconds=seconds),
                )
            )

    world.database.run(add)
    found = samples(page_of(world))
    assert found["tonnage_csi_claims", "busy.example.com"] == 2
    assert found["tonnage_csi_claimed_bytes", "busy.example.com"] == 6 * GIB
    assert (
        found["tonnage_csi_claims", "idle.example.com"] == found["tonnage_csi_claimed_bytes", "idle.example.com"] == 0
    )


def test_the_pools_of_a_silent_backend_have_no_capacities(world: World) -> None:
    found = samples(page_of(world, down_time=-1))
    [up] = [value for (name, label), value in found.items() if name == "tonnage_pool_up" and label.endswith("#thin")]
    assert up == 0
    names = {name for name, _ in found}
    assert not [name for name in names if name.startswith("tonnage_pool_") and name.endswith("_bytes")]
    assert "tonnage_pool_figures_timestamp_seconds" in names
    assert {found[key] for key in found if key[0] == "tonnage_backend_up"} == {0.0}


def test_above_the_limit_there_are_sums_of_backends(world: World) -> None:
    found = samples(page_of(world, max_pools=1))
    assert found["tonnage_metrics_pools_omitted", ""] == 2
    [total] = [value for (name, _), value in found.items() if name == "tonnage_backend_total_bytes"]
    assert total == 22 * GIB
    assert not [name for name, _ in found if name.startswith("tonnage_pool")]


def test_a_sum_with_an_unknown_capacity_is_unknown(world: World) -> None:
    with world.engine.begin() as connection:
        one = models.Pool.name.endswith("#thin")
        connection.execute(sa.update(models.Pool).where(one).values(total_capacity_gb=None))
    found = {name: value for (name, _), value in samples(page_of(world, max_pools=1)).items()}
    assert math.isnan(found["tonnage_backend_total_bytes"])
    assert (found["tonnage_backend_pools"], found["tonnage_backend_allocated_bytes"]) == (2, 7 * GIB)
    silent = samples(page_of(world, max_pools=1, down_time=-1))
    assert not [name for name, _ in silent if name.startswith("tonnage_backend") and name.endswith("_bytes")]


def test_changed_labels_are_those_of_the_next_page(world: World) -> None:
    page = page_of(world)
    assert any("nova" in label for name, label in samples(page) if name == "tonnage_pool_info")
    with world.engine.begin() as connection:
        connection.execute(sa.update(models.Backend).values(availability_zone="east"))
    info = [label for name, label in samples(page) if name == "tonnage_pool_info"]
    assert [label for label in info if "east" not in label] == []


def test_one_backend_can_be_selected(world: World) -> None:
    [name] = [label for metric, label in samples(page_of(world)) if metric == "tonnage_backend_up"]
    assert samples(page_of(world), name)["tonnage_backend_up", name] == 1
    assert ("tonnage_backend_up", name) not in samples(page_of(world), "another@backend")


def test_the_page_is_kept_for_some_time(world: World) -> None:
    page = page_of(world, cache_time=60.0)
    before = page.compressed()
    with world.engine.begin() as connection:
        connection.execute(sa.text("UPDATE pools SET total_capacity_gb = 1"))
    assert page.compressed() == before
    assert samples(page_of(world)) != samples(page)
