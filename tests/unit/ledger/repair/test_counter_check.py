# SPDX-License-Identifier: Apache-2.0
"""Sums of claims per pool, beside the stored counters."""

import pytest

from tests.unit.ledger.records import Records
from tonnage.ledger.repair import counter_check
from tonnage.ledger.repair.counter_check import ALLOCATED, IN_FLIGHT, IN_FLIGHT_PHYSICAL

STORAGE = {"storage_id": "array"}


def claim(records: Records, pool_id: int, **values: object) -> None:
    """Add a claim on a volume of its own."""
    records.claim(records.volume(pool_id), pool_id, **values)


def shared(records: Records) -> dict[int, tuple[int, ...]]:
    """Return the correct shared counters: allocated, in flight, and physical in flight."""
    sums = records.run(counter_check.load)
    return {pool_id: tuple(counters.values()) for pool_id, counters in records.run(counter_check.shared, sums).items()}


def test_live_claims_are_allocated_and_uncontained_ones_in_flight(records: Records) -> None:
    pool = records.pool(in_flight_gb=9)
    claim(records, pool, size_gb=1)
    claim(records, pool, size_gb=2, physical_gb=2, state="pending", contained=False)
    claim(records, pool, size_gb=4, state="abandoned", contained=False)
    claim(records, pool, size_gb=8, physical_gb=8, state="released", contained=False)
    claim(records, pool, size_gb=16, state="released")
    sums = records.run(counter_check.load)[pool]
    assert sums.claimed == {ALLOCATED: 7, IN_FLIGHT: 14, IN_FLIGHT_PHYSICAL: 10}
    assert (sums.contained, sums.pending, sums.backend) == (1, 1, "host@b")
    assert sums.oldest is not None
    assert 0 <= sums.oldest < 60
    assert (sums.counters[ALLOCATED], sums.counters[IN_FLIGHT]) == (0, 9)


def test_a_pool_without_claims_has_sums_of_zero(records: Records) -> None:
    first, second = records.pool("host@b#p"), records.pool("host@b#q")
    claim(records, second)
    assert records.run(counter_check.load).keys() == {first, second}
    sums = records.run(counter_check.load, [first])
    assert sums.keys() == {first}
    assert (set(sums[first].claimed.values()), sums[first].pending, sums[first].oldest) == ({0}, 0, None)
    assert records.run(counter_check.allocated, [first, second]) == {first: 0, second: 3}


def test_pools_without_a_storage_share_nothing(records: Records) -> None:
    claim(records, records.pool(), contained_by_all=False)
    assert shared(records) == {}


def test_a_pool_counts_the_claims_and_external_volumes_of_the_others_on_its_storage(records: Records) -> None:
    first = records.pool("host@b#p", external_gb=1.5, **STORAGE)
    second = records.pool("host@b#q", **STORAGE)
    claim(records, first, size_gb=5)
    claim(records, second, size_gb=3, physical_gb=2, contained=False, contained_by_all=False, state="pending")
    assert shared(records) == {first: (3, 3, 2), second: (5 + 2, 0, 0)}


def test_a_part_of_a_storage_counts_only_physical_capacity_of_the_others(records: Records) -> None:
    part = records.pool("host@b#p", storage_free_gb=50.0, **STORAGE)
    claim(records, records.pool("host@b#q", storage_free_gb=50.0, **STORAGE), physical_gb=2, contained_by_all=False)
    assert shared(records)[part] == (0, 0, 2)


@pytest.mark.parametrize(
    ("end_tick", "in_flight"),
    [(None, 3), (7, 3), (6, 0)],
)
def test_figures_of_one_backend_contain_claims_by_ticks(records: Records, end_tick: int | None, in_flight: int) -> None:
    first = records.pool("host@b#p", covers_epoch=1, covers_tick=7, **STORAGE)
    second = records.pool("host@b#q", **STORAGE)
    claim(records, second, state="released", contained_by_all=False, end_epoch=1, end_tick=end_tick, end_stamp=99)
    assert shared(records)[first] == (0, in_flight, 0)


@pytest.mark.parametrize(
    ("end_stamp", "in_flight"),
    [(None, 3), (8, 3), (7, 0)],
)
def test_figures_of_another_backend_contain_claims_by_stamps(
    records: Records, end_stamp: int | None, in_flight: int
) -> None:
    first = records.pool("host@b#p", covers_stamp=7, **STORAGE)
    second = records.pool("host@c#p", **STORAGE)
    claim(records, second, state="released", contained_by_all=False, end_epoch=0, end_tick=1, end_stamp=end_stamp)
    assert shared(records)[first] == (0, in_flight, 0)
