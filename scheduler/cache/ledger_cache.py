# SPDX-License-Identifier: Apache-2.0
"""A process's copy of the ledger's backends and pools, and which rows of the ledger it does not have yet."""

import abc
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from tonnage.ledger.inventory.backends import BackendRow, PoolMark, PoolRow
from tonnage.ledger.locks.pool_counters import Counters

LOG = logging.getLogger(__name__)

#: Most pools that have a line each in the log when they are no longer reported.
_FIRST = 3


class CachedBackend(Protocol):
    """The part of a backend that shows whether the ledger has another state; a row of the ledger has it too."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def availability_zone(self) -> str: ...
    @property
    def enabled(self) -> bool: ...
    @property
    def draining(self) -> bool: ...
    @property
    def epoch(self) -> int: ...
    @property
    def report_seq(self) -> int: ...
    @property
    def report_covers(self) -> int: ...


class CachedPool(Protocol):
    """The part of a pool that is the ledger's; a row of the ledger has it too."""

    @property
    def id(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def counters(self) -> Counters: ...


Backend = TypeVar("Backend", bound=CachedBackend)
Pool = TypeVar("Pool", bound=CachedPool)


class LedgerCache(abc.ABC, Generic[Backend, Pool]):
    """Backends and pools by name. :class:`~tonnage.scheduler.cache.cache_refresh.LedgerRefresh` brings them up to date.

    A subclass decides what it keeps of a row, and hears which pools have changed.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Pool] = {}
        self._backends: dict[str, Backend] = {}
        self._names: dict[int, str] = {}

    @abc.abstractmethod
    def _put_backend(self, row: BackendRow, now: float, absence: float) -> None:
        """Add a backend, or bring it up to its row."""

    @abc.abstractmethod
    def apply_pools(self, rows: Iterable[PoolRow]) -> None:
        """Bring pools up to the ledger, with the figures of their last reports. Skip pools of unknown backends."""

    @abc.abstractmethod
    def _pools_of(self, backend: Backend) -> Collection[str]:
        """Return the names of a backend's pools."""

    @abc.abstractmethod
    def _with_counters(self, pool: Pool, counters: Counters) -> Pool:
        """Return a pool with other counters."""

    @abc.abstractmethod
    def _show_counters(self, names: Sequence[str]) -> None:
        """Show decisions the counters of these pools, which have changed."""

    @abc.abstractmethod
    def _hide_pools(self, names: Sequence[str]) -> None:
        """Show decisions these pools, which have just been forgotten, no more."""

    def backend(self, name: str) -> Backend | None:
        """Return the backend of that name, or None if the cache does not have it."""
        return self._backends.get(name)

    def number_of_pools(self, backend: str) -> int:
        """Return the number of pools of a backend that the cache has."""
        return len(self._pools_of(self._backends[backend]))

    def backends(self) -> Iterable[Backend]:
        """Return all backends."""
        return self._backends.values()

    def is_outdated(self, row: BackendRow) -> bool:
        """Return whether a report, a hello or an operator has changed a backend, and maybe its pools, in the ledger."""
        backend = self._backends.get(row.name)
        return backend is None or _state(backend) != _state(row)

    def has_figures(self, mark: PoolMark, row: BackendRow) -> bool:
        """Return whether the cache has the figures of a pool that the ledger has, by the pool's mark."""
        backend, pool = self._backends.get(row.name), self.entries.get(mark.name)
        if backend is None or pool is None or (backend.id, pool.id) != (row.id, mark.id):
            return False
        return mark.is_unchanged(pool.generation, (backend.epoch, backend.report_covers))

    def apply_silence(self, row: BackendRow, now: float) -> bool:
        """Take over when any scheduler received the last report; return whether the backend's status changes.

        A cache without statuses ignores it.
        """
        return False

    def apply_hello(self, row: BackendRow, now: float) -> None:
        """Bring a backend up to its row after a hello, before which the cache was current; its pools stay."""
        self._put_backend(row, now, 0.0)

    def apply_rows(
        self, row: BackendRow, marks: Iterable[PoolMark], rows: Iterable[PoolRow], now: float, absence: float = 0.0
    ) -> list[PoolMark]:
        """Bring a backend and its pools up to the ledger; return the marks of the pools that were current.

        ``row`` was read first, then the ``marks`` of all pools, then the ``rows`` of those whose figures the cache does
        not have. Pools in neither are forgotten. The silence of a backend counts only while a scheduler listened:
        ``absence`` is for how many seconds none did.
        """
        rows = list(rows)
        loaded = {pool.name for pool in rows}
        # A row that was to be read and is not there has gone since its mark was read.
        current = [mark for mark in marks if mark.name not in loaded and self.has_figures(mark, row)]
        present = loaded.union(mark.name for mark in current)
        backend = self._backends.get(row.name)
        if backend is not None and backend.id != row.id:
            # It was removed, and has said hello again.
            self.forget_backend(row.name)
        self._put_backend(row, now, absence)
        self.forget_pools(sorted(set(self._pools_of(self._backends[row.name])) - present))
        self.apply_pools(rows)
        self.set_counters({mark.id: mark.counters for mark in current})
        return current

    def forget_missing(self, rows: Iterable[BackendRow]) -> bool:
        """Forget backends that are not among the rows of all backends; return whether there were any."""
        present = {(row.name, row.id) for row in rows}
        missing = [backend.name for backend in self._backends.values() if (backend.name, backend.id) not in present]
        for name in missing:
            LOG.warning("Backend %s has been removed", name)
            self.forget_backend(name)
        return bool(missing)

    def forget_backend(self, name: str) -> None:
        """Forget a backend that an operator has removed."""
        self.forget_pools(sorted(self._pools_of(self._backends[name])))
        del self._backends[name]

    def forget_pools(self, names: Iterable[str]) -> None:
        """Place nothing more in these pools, which are no longer reported. The ledger keeps its counters of them."""
        names = list(names)
        if len(names) > _FIRST:
            text = "%d pools are no longer reported, and nothing is placed there; the first are %s"
            LOG.warning(text, len(names), ", ".join(names[:_FIRST]))
        for name in names:
            if len(names) <= _FIRST:
                LOG.warning("Pool %s is no longer reported; nothing is placed there", name)
            self._names.pop(self.entries.pop(name).id, None)
        self._hide_pools(names)

    def names(self, pool_ids: Iterable[int]) -> list[str]:
        """Return the names of the pools with these ids in the ledger, without those that the cache does not have."""
        return [self._names[pool_id] for pool_id in pool_ids if pool_id in self._names]

    def counters(self, pool_ids: Iterable[int]) -> dict[int, Counters]:
        """Return the counters of these pools, without pools that the cache does not have."""
        return {id: self.entries[self._names[id]].counters for id in pool_ids if id in self._names}

    def set_counters(self, counters: Mapping[int, Counters]) -> None:
        """Take over counters that are committed in the ledger."""
        changed = []
        for pool_id, value in counters.items():
            name = self._names.get(pool_id)
            if name is not None and name in self.entries and self.entries[name].counters != value:
                self.entries[name] = self._with_counters(self.entries[name], value)
                changed.append(name)
        self._show_counters(changed)


def _state(backend: CachedBackend) -> tuple[object, ...]:
    """Return the part of a backend that changes when the figures of its pools may have."""
    return (
        backend.id,
        backend.epoch,
        backend.report_seq,
        backend.enabled,
        backend.draining,
        backend.availability_zone,
    )
