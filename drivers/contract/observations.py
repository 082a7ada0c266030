# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""The observations of the tests: reports, lists, and values that follow from them."""

import dataclasses
import math
from typing import Any

from tonnage.capacity import arithmetic
from tonnage.capacity.pool_stats import PoolStats
from tonnage.capacity.pools.pool_table import Pool
from tonnage.capacity.reports.validation import validate
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, StoredVolume, Terms, Volume

#: The largest rounding error of a difference of two figures with two decimals, in GiB.
_ROUNDING_GB = 0.011


def all_stats(driver: Driver) -> tuple[PoolStats, ...]:
    """Return the validated report."""
    report = validate(driver.report())
    assert report.errors == ()
    return report.pools


def figures(driver: Driver) -> list[PoolStats]:
    """Return the validated report without the free space of the storage, which other programs may change."""
    return [stats._replace(storage_free=0.0) for stats in all_stats(driver)]


def stats_of(driver: Driver, pool: str) -> PoolStats:
    """Return the report of one pool."""
    return next(stats for stats in all_stats(driver) if stats.name == pool)


def listed_volume(driver: Driver, volume_id: str) -> StoredVolume:
    """Return the list's entry of a volume."""
    return next(stored for stored in driver.list_volumes() if stored.id == volume_id)


def sizes(driver: Driver) -> dict[str, float]:
    """Return the listed sizes in GiB by volume id; each volume must be listed once."""
    listed = driver.list_volumes()
    size_by_id = {stored.id: stored.size_gb for stored in listed}
    assert len(size_by_id) == len(listed), "a volume is listed twice"
    return size_by_id


def pool_and_terms(driver: Driver, volume: Volume) -> tuple[Pool, Terms]:
    """Return the pool of a volume from its report, and the terms of admission to it."""
    stats = stats_of(driver, volume.pool)
    terms = volume.terms or driver.default_terms(stats)
    pool = Pool(
        name=volume.pool,
        total=stats.total,
        free=stats.free,
        provisioned=stats.total - stats.free if math.isnan(stats.provisioned) else stats.provisioned,
        reserved_percentage=stats.reserved_percentage,
        ratio=terms.ratio,
    )
    return pool, terms


def headroom(driver: Driver, volume: Volume) -> int:
    """Return the size in GiB of the largest volume that fits now, as a scheduler computes it from the report."""
    pool, terms = pool_and_terms(driver, volume)
    largest = float(arithmetic.headroom(pool, volume.provisioning is Provisioning.THIN, terms.calculation))
    assert math.isfinite(largest), "the contract needs pools with a limit"
    return int(largest)


def capacity_in_1gib_volumes(driver: Driver, volume: Volume) -> int:
    """Return the number of 1 GiB volumes that the pool takes one after the other, with thin ones unwritten."""
    pool, terms = pool_and_terms(driver, volume)
    thin = volume.provisioning is Provisioning.THIN
    count = 0
    while arithmetic.admits(pool, 1, thin, terms.calculation):
        count += 1
        assert count <= 100, "the contract needs pools of few GiB"
        pool = dataclasses.replace(pool, provisioned=pool.provisioned + 1, free=pool.free if thin else pool.free - 1)
    return count


def assert_growth(before: float, after: float, by_gb: float) -> None:
    """Assert that a figure has grown by ``by_gb``, apart from the rounding to two decimals."""
    assert abs(after - before - by_gb) <= _ROUNDING_GB, f"{before} became {after}, expected a growth of {by_gb}"


def assert_plain(value: Any) -> None:
    """Assert that a value can be serialized: dictionaries, lists, strings, numbers, booleans and None alone."""
    if isinstance(value, dict):
        for key, inner in value.items():
            assert type(key) is str
            assert_plain(inner)
    elif isinstance(value, list):
        for inner in value:
            assert_plain(inner)
    else:
        assert value is None or type(value) in (str, int, float, bool), f"{value!r} is no plain value"
