# SPDX-License-Identifier: Apache-2.0
"""The page about the ledger."""

import math
from collections.abc import Mapping

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.api.monitoring.ledger_pages import page_of, samples, world_with_volumes
from tests.unit.scheduler.world import World
from tonnage.api.monitoring.exposition import Page
from tonnage.api.monitoring.ledger_page import PageScope
from tonnage.ledger import models

GIB = 2**30


@pytest.fixture
def world() -> World:
    """A thin pool with a volume of 3 GiB at rest and one of 4 GiB in flight, and an empty thick pool."""
    return world_with_volumes()


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


class Extension:
    """Series of an extension, which keep the scopes."""

    def __init__(self) -> None:
        self.scopes: list[PageScope] = []

    def add(self, page: Page, session: orm.Session, scope: PageScope) -> None:
        self.scopes.append(scope)
        page.add_gauge("tonnage_racks", "Racks.", [("", session.scalar(sa.select(sa.func.count(models.Pool.id))))])


def test_an_extension_adds_series_for_the_pools_that_are_shown(world: World) -> None:
    extension = Extension()
    assert samples(page_of(world, series=[extension]))["tonnage_racks", ""] == 2
    samples(page_of(world, max_pools=1, series=[extension]))
    samples(page_of(world, down_time=-1.0, series=[extension]), "host@backend")
    names = {f"host@backend#{pool}" for pool in ("thin", "thick")}
    assert extension.scopes == [PageScope(None, names), PageScope(None, None), PageScope("host@backend", set())]
