# SPDX-License-Identifier: Apache-2.0
"""The ledger's pools in the memory of a scheduler of Cinder, brought up to the ledger by its changes."""

import contextlib
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory.backends import BackendRow, PoolRow
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.locks.pool_counters import Counters
from tonnage.scheduler.cache.cache_refresh import LedgerRefresh
from tonnage.scheduler.cache.ledger_cache import LedgerCache


class LedgerPools:
    """All reported pools, with the figures of the last probe and the capacity in flight. For any thread.

    Methods that read the ledger raise :class:`~tonnage.capacity.errors.Unavailable` while its database is away.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache = _PoolRows()
        self._refresh = LedgerRefresh(self._cache, time.monotonic)
        #: The allocated capacity of each backend, by id, at the last turn.
        self._allocated: Mapping[int, int] = {}
        #: The pools with claims that were noted since then.
        self._noted: list[int] = []
        # Only one thread reads at a time, so that the last rows are applied last.
        self._reading = threading.Lock()

    @property
    def rows(self) -> Mapping[str, PoolRow]:
        """The pools by name."""
        return self._cache.entries

    def changes(self, version: int) -> tuple[int, Collection[str] | None]:
        """Return the present version, and the names of the pools that have changed since an earlier one.

        The names are None if they are no longer known: any pool may have changed.
        """
        return self._cache.changes(version)

    def refresh(self, pool_ids: Collection[int] | None = None) -> None:
        """Apply all reports that the ledger has, and the claims on these pools, or on all."""
        with self._reading, self._database.reading(patient=False) as session:
            self._refresh.refresh_counters(session, self._cache.ids() if pool_ids is None else pool_ids)
            self._refresh.refresh(session)

    def refresh_changed(self) -> None:
        """Apply all reports, and the claims on backends whose allocated capacity has changed.

        If claims on a backend balance, the next report shows them.
        """
        with self._reading, self._database.reading(patient=False) as session:
            allocated = pool_counters.allocated_on_backends(session)
            changed = {id for id, size in allocated.items() if self._allocated.get(id) != size}
            noted = [self._noted.pop() for _ in range(len(self._noted))]
            self._refresh.refresh_counters(session, {*noted, *self._cache.ids(changed)})
            self._allocated = allocated
            self._refresh.refresh(session)

    def note_claim(self, pool_id: int, size_gb: int, physical_gb: int) -> None:
        """Show a claim that was just booked to the next decision. The next refresh reads the counters of its pool."""
        with contextlib.suppress(KeyError):  # another thread has just removed the pool
            for counters in self._cache.counters([pool_id]).values():
                increased = counters._replace(
                    allocated=counters.allocated + size_gb,
                    in_flight=counters.in_flight + size_gb,
                    in_flight_physical=counters.in_flight_physical + physical_gb,
                )
                self._cache.set_counters({pool_id: increased})
        self._noted.append(pool_id)


class _PoolRows(LedgerCache[BackendRow, PoolRow]):
    """The cache behind :class:`LedgerPools`: whole rows, and the names of the pools that have changed."""

    def __init__(self) -> None:
        super().__init__()
        #: The names of changed pools, one for each change, after those that were dropped.
        self._changes: list[str] = []
        self._dropped = 0
        self._lock = threading.Lock()

    def changes(self, version: int) -> tuple[int, set[str] | None]:
        with self._lock:
            names = None if version < self._dropped else set(self._changes[version - self._dropped :])
            return self._dropped + len(self._changes), names

    def ids(self, backend_ids: Collection[int] | None = None) -> list[int]:
        return [row.id for row in self.entries.values() if backend_ids is None or row.backend_id in backend_ids]

    def apply_pools(self, rows: Iterable[PoolRow]) -> None:
        rows = list(rows)
        self.entries.update((row.name, row) for row in rows)
        self._names.update((row.id, row.name) for row in rows)
        self._note([row.name for row in rows])

    def _put_backend(self, row: BackendRow, now: float, absence: float) -> None:
        self._backends[row.name] = row

    def _pools_of(self, backend: BackendRow) -> list[str]:
        return [row.name for row in self.entries.values() if row.backend_id == backend.id]

    def _with_counters(self, pool: PoolRow, counters: Counters) -> PoolRow:
        return pool._replace(counters=counters)

    def _show_counters(self, names: Sequence[str]) -> None:
        self._note(names)

    def _hide_pools(self, names: Sequence[str]) -> None:
        self._note(names)

    def _note(self, names: Sequence[str]) -> None:
        with self._lock:
            self._changes.extend(names)
            if len(self._changes) > 2 * len(self.entries) + 1024:
                self._dropped += len(self._changes)
                self._changes.clear()
