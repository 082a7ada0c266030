# SPDX-License-Identifier: Apache-2.0
"""The pools that may be chosen: both Cinder's scheduler and the ledger know them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tonnage.capacity.pools.pool import backend_of
from tonnage.extensions.cinder.pools.ledger_pools import LedgerPools
from tonnage.extensions.cinder.pools.look_alike_columns import LookAlikeColumns
from tonnage.extensions.cinder.pools.look_alikes import PoolLookAlike, look_alike

Rows = npt.NDArray[np.intp]


class Pools(Collection[PoolLookAlike]):
    """Some of the known pools at the time of a decision, in the order of Cinder's scheduler.

    ``rows`` are their positions among all of ``states``, and in the ``columns``.
    """

    def __init__(self, states: list[PoolLookAlike], columns: LookAlikeColumns, rows: Rows | None = None) -> None:
        self._states = states
        self.columns = columns
        self.rows = np.arange(len(states)) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[PoolLookAlike]:
        return map(self._states.__getitem__, self.rows.tolist())

    def __contains__(self, state: object) -> bool:
        return any(state is pool for pool in self)

    def __getitem__(self, index: int) -> PoolLookAlike:
        return self._states[int(self.rows[index])]

    def within(self, mask: npt.NDArray[np.bool_]) -> "Pools":
        """Return the pools that ``mask`` includes, which has a value for every pool."""
        return Pools(self._states, self.columns, self.rows[mask[self.rows]])

    def confined_to(self, target: str) -> "Pools":
        """Return the pool that ``target`` names, or the pools of the backend that it names."""
        names = self.columns.names
        rows = [row for row in self.rows.tolist() if target in (names[row], backend_of(names[row]))]
        return Pools(self._states, self.columns, np.array(rows, dtype=np.intp))

    def without(self, names: Collection[str]) -> "Pools":
        """Return these pools without the named ones."""
        mask = np.ones(len(self._states), dtype=np.bool_)
        for name in names:
            row = self.columns.index(name)
            if row is not None:
                mask[row] = False
        return self.within(mask)

    def kept(self, states: Sequence[Any]) -> "Pools | Sequence[Any]":
        """Return the pools that a filter has kept, in its order; the states themselves if it returned other objects."""
        row_by_id = {id(state): row for state, row in zip(self, self.rows.tolist(), strict=True)}
        rows = [row_by_id.get(id(state)) for state in states]
        return states if None in rows else Pools(self._states, self.columns, np.array(rows, dtype=np.intp))


class KnownPools:
    """Look-alikes of all pools. Each is kept until its row or its report changes.

    One thread at a time may call the methods.
    """

    def __init__(self, ledger: LedgerPools) -> None:
        self._ledger = ledger
        self._version = 0
        self._reported: Mapping[str, Any] = {}
        self._states: list[PoolLookAlike] = []
        self._columns = LookAlikeColumns([])
        self._stale: set[str] = set()

    def set_reported(self, pools: Mapping[str, Any], changed: Collection[str]) -> None:
        """Take over the pools of Cinder's scheduler, by name; ``changed`` are those with another report or service."""
        gone = self._reported.keys() - pools.keys()
        self._reported = pools
        self._stale.update(changed, gone)

    def present(self) -> tuple[int, Pools]:
        """Return the pools as they are now, after the version of the ledger's pools that they show."""
        self._version, changed = self._ledger.changes(self._version)
        stale = self._stale.union(self._reported if changed is None else changed)
        self._stale.clear()
        if stale:
            self._renew(stale)
        return self._version, Pools(self._states, self._columns)

    def _renew(self, stale: Collection[str]) -> None:
        rows, reported, columns = self._ledger.rows, self._reported, self._columns
        stale_rows = [(name, rows.get(name)) for name in stale if name in reported]
        made = {name: look_alike(reported[name], row) for name, row in stale_rows if row is not None}
        if all((name in made) == (columns.index(name) is not None) for name in stale):
            self._states = self._states.copy()
            for name, state in made.items():
                self._states[columns.index(name) or 0] = state
            columns.show(made.values())
            return
        before = {state.backend_id: state for state in self._states if state.backend_id not in stale} | made
        self._states = [before[name] for name in reported if name in before]
        self._columns = LookAlikeColumns(self._states)
