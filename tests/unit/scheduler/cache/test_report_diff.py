# SPDX-License-Identifier: Apache-2.0
"""Reports are compared with the cache: what is new, what has gone, what cannot be used."""

import logging
from typing import Any

import pytest

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.rpc.messages import BackendReport
from tonnage.scheduler.cache.backend_state import BackendEntry
from tonnage.scheduler.cache.report_diff import ReportDiff, ReportDiffer


@pytest.fixture
def world() -> World:
    """A scheduler with the pools p0 and p1 in its cache."""
    return World({name: StoragePool(20, 2.0, thin=True, thick=False) for name in ("p0", "p1")}).started()


def entry(world: World) -> BackendEntry:
    backend = world.hosts.backend(BACKEND)
    assert backend is not None
    return backend


def diff(world: World, *pools: dict[str, Any], ratio: float = 20.0, **values: Any) -> ReportDiff:
    differ = ReportDiffer(world.hosts.table, world.hosts.entries, ratio, world.calculation, 7)
    report = BackendReport(**{"backend": BACKEND, "epoch": 1, "seq": 9, "covers": 30, "pools": list(pools)} | values)
    return differ.diff(entry(world), report, 100)


def reported(world: World, name: str = "p0", **values: Any) -> dict[str, Any]:
    return world.agent._figures(name) | values


def written(result: ReportDiff) -> list[str]:
    return [figure.name.rpartition("#")[2] for figure in result.report.figures]


def test_unchanged_pools_are_not_written(world: World) -> None:
    result = diff(world, reported(world), reported(world, "p1"))
    assert (written(result), result.vanished, result.report.unusable) == ([], set(), [])
    assert set(result.stats) == {f"{BACKEND}#p0", f"{BACKEND}#p1"}
    assert (result.report.seq, result.report.base, result.report.rules) == (9, entry(world).report_seq, 7)


def test_changed_and_new_pools_are_written(world: World) -> None:
    result = diff(world, reported(world, free_capacity_gb=3), reported(world, "p1"), reported(world, pool_name="new"))
    assert sorted(written(result)) == ["new", "p0"]
    assert {figure.id is None for figure in result.report.figures if figure.name.endswith("new")} == {True}


def test_a_pool_that_is_not_reported_has_vanished(world: World) -> None:
    result = diff(world, reported(world))
    assert result.vanished == {f"{BACKEND}#p1"}
    assert result.report.vanished == [world.hosts.entries[f"{BACKEND}#p1"].id]


def test_an_unusable_pool_keeps_its_figures_and_harms_no_other(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        result = diff(world, reported(world, free_capacity_gb="much"), reported(world, "p1", free_capacity_gb=1))
    assert written(result) == ["p1"]
    assert (result.vanished, result.report.unusable) == (set(), [world.hosts.entries[f"{BACKEND}#p0"].id])
    assert len(caplog.messages) == 1
    assert "free_capacity_gb is 'much'" in caplog.text


def test_the_first_of_two_pools_with_one_name_counts(world: World, caplog: pytest.LogCaptureFixture) -> None:
    result = diff(
        world, reported(world, free_capacity_gb=4), reported(world, free_capacity_gb=5), reported(world, "p1")
    )
    assert [figure.free_gb for figure in result.report.figures] == [4.0]
    assert "is reported twice" in caplog.text


def test_a_new_default_ratio_changes_pools_that_report_none(world: World) -> None:
    no_ratio = reported(world, max_over_subscription_ratio=None)
    world.agent._figures = lambda name: reported_of(world, name)  # type: ignore[method-assign]
    world.report()
    assert written(diff(world, no_ratio, no_ratio | {"pool_name": "p1"})) == []
    result = diff(world, no_ratio, no_ratio | {"pool_name": "p1"}, ratio=3.0)
    assert [figure.ratio for figure in result.report.figures] == [3.0, 3.0]


def reported_of(world: World, name: str) -> dict[str, Any]:
    """Return the figures of a pool without a ratio."""
    pool = world.pools[name]
    return {
        "pool_name": name,
        "total_capacity_gb": pool.total,
        "free_capacity_gb": pool.total - pool.thick_use,
        "provisioned_capacity_gb": pool.provisioned,
        "max_over_subscription_ratio": None,
        "reserved_percentage": pool.reserved,
        "thin_provisioning_support": pool.thin,
        "thick_provisioning_support": pool.thick,
        "storage_id": pool.storage_id,
    }


def test_figures_of_a_shared_storage_need_a_stamp(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "tonnage.scheduler.cache.report_diff")
    monkeypatch.setattr(world.hosts.table, "backends_on", lambda storage_id: {BACKEND, "other@b"})
    on_array = reported(world, storage_id="array")
    result = diff(world, on_array, reported(world, "p1"))
    assert (result.unstamped, written(result), result.report.storages) == ({"array"}, [], set())
    result = diff(world, on_array, reported(world, "p1"), stamps={"array": 3})
    assert (result.unstamped, written(result), result.report.storages) == (set(), ["p0"], {"array"})
    assert caplog.text == ""


def test_a_missing_stamp_is_a_warning_once_a_second_report_in_a_row_lacks_it(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "tonnage.scheduler.cache.report_diff")
    monkeypatch.setattr(world.hosts.table, "backends_on", lambda storage_id: {BACKEND, "other@b"})
    on_array = reported(world, storage_id="array")
    diff(world, on_array, seq=9)
    # The same report may be compared again.
    diff(world, on_array, seq=9)
    diff(world, on_array, seq=10, stamps={"array": 3})
    diff(world, on_array, seq=11)
    assert caplog.text == ""
    for seq in (12, 13):
        diff(world, on_array, seq=seq)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert f"pool {BACKEND}#p0 shares the storage array with another backend" in record.getMessage()
    # An agent that has been started again begins with the first report.
    diff(world, on_array, seq=1, epoch=2)
    diff(world, on_array, seq=2, epoch=2)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("age", "stored"), [(-5.0, 0.0), (4.0, 4.0), (1e300, 1e9), (float("nan"), 1e9)])
def test_an_impossible_age_makes_figures_unusable(world: World, age: float, stored: float) -> None:
    assert diff(world, reported(world), age=age).report.age == stored
