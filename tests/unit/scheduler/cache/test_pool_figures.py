# SPDX-License-Identifier: Apache-2.0
"""Rows of the pool table, one at a time and as columns."""

from tonnage.capacity.pool_stats import PoolStats
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.scheduler.cache import pool_figures
from tonnage.scheduler.cache.backend_state import BackendEntry, PoolEntry


def test_columns_say_what_rows_say() -> None:
    backend = BackendEntry(
        id=1,
        name="h@b",
        availability_zone="west",
        enabled=False,
        disabled_reason=None,
        epoch=1,
        report_seq=1,
        report_covers=1,
        last_seen=0.0,
        up=False,
    )
    entries = {}
    for number in range(1, 4):
        stats = PoolStats(
            name=f"p{number}",
            total=100.0 * number,
            free=90.0,
            provisioned=7.0 * number,
            reserved_percentage=5.0,
            thin=number == 2,
            thick=number != 2,
            storage_id="array" if number == 3 else None,
            storage_free=33.0 if number == 3 else float("nan"),
            capabilities={"number": number},
        )
        counters = Counters(*(10 * number + place for place in range(7)))
        entries[f"h@b#p{number}"] = PoolEntry(number, 0, stats, {}, counters, 1.5 * number)
    rows, columns = PoolTable(), PoolTable()
    rows.put_all(_row(name, entry, backend) for name, entry in entries.items())
    columns.put_columns(list(entries), pool_figures.columns(list(entries.values()), [backend] * 3))
    assert list(map(repr, columns)) == list(map(repr, rows))
    assert len({repr(pool) for pool in columns}) == 3


def _row(name: str, entry: PoolEntry, backend: BackendEntry) -> Pool:
    stats, counters = entry.stats, entry.counters
    return Pool(
        name=name,
        total=stats.total,
        free=stats.free,
        provisioned=stats.provisioned,
        allocated=counters.allocated,
        claimed=counters.in_flight,
        claimed_physical=counters.in_flight_physical,
        shared_allocated=counters.shared_allocated,
        shared_in_flight=counters.shared_in_flight,
        shared_in_flight_physical=counters.shared_in_flight_physical,
        external=counters.external,
        storage_free=stats.storage_free,
        reserved_percentage=stats.reserved_percentage,
        ratio=entry.ratio,
        thin=stats.thin,
        thick=stats.thick,
        up=backend.up,
        enabled=backend.enabled,
        storage_id=stats.storage_id,
        availability_zone=backend.availability_zone,
        capabilities=stats.capabilities,
    )
