# SPDX-License-Identifier: Apache-2.0
"""Drift of ``allocated_capacity_gb``: the count of a volume service against the sum of the rows, with its cause.

cinder-volume counts volumes anew at its start, and then adds and subtracts. A report is compared only if no volume of
the pool changed between the report before it and the read of the rows after it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tonnage.capacity.pools.pool import backend_of
from tonnage.cinder_adapter.cinder_messages import MOVES, Command
from tonnage.cinder_adapter.cinder_rows import VolumeRow
from tonnage.cinder_adapter.watch.findings import Finding, Key, Kind
from tonnage.cinder_adapter.watch.promised_capacity import PromisedCapacity

_CODE = "allocated"

#: Seconds after a report before which rows may not show all changes that it contains.
_MARGIN = 2.0


@dataclass(slots=True)
class _Moves:
    """The GiB that left a pool, that came, and that Cinder made or deleted outside of the quota, since it was right."""

    left: dict[str, int] = field(default_factory=dict)
    came: dict[str, int] = field(default_factory=dict)
    uncounted: dict[str, int] = field(default_factory=dict)


class AllocatedDrift:
    """Compares reports with rows, and remembers the events that make them differ."""

    def __init__(self, promised: PromisedCapacity) -> None:
        self._promised = promised
        self._moves: dict[str, _Moves] = {}
        self._sources: dict[str, str] = {}
        self._pending: dict[str, float] = {}

    def note_command(self, command: Command, source: str | None) -> None:
        """Note the move of a volume from its pool ``source``."""
        if command.verb in MOVES and source not in (None, command.pool):
            self._moves_of(str(source)).left[command.volume_id] = command.size_gb
            self._moves_of(command.pool).came[command.volume_id] = command.size_gb

    def note_gone(self, known: VolumeRow) -> None:
        """Note the row of a volume that is gone."""
        if not known.counted and known.pool is not None:
            self._moves_of(known.pool).uncounted[known.id] = known.size_gb

    def note_report(self, pools: Iterable[str], sent_at: float) -> None:
        """Note pools to be compared with the next rows."""
        for pool in pools:
            self._pending[pool] = sent_at

    def compare(self, read_at: float) -> tuple[list[Finding], list[Key]]:
        """Compare the pending pools with rows read at ``read_at``; return the findings, and the keys of ended ones."""
        found, ended = [], []
        for pool, sent_at in list(self._pending.items()):
            if read_at < sent_at + _MARGIN:
                continue
            del self._pending[pool]
            reported = self._promised.reported(pool)
            if reported is None or reported.allocated is None or not self._promised.is_quiet(pool):
                continue
            rows = self._promised.row_sum(pool)
            drift = reported.allocated - rows
            if abs(drift) < 0.5:
                self._moves.pop(pool, None)
                ended.append((Kind.ALLOCATED_DRIFT.value, pool, _CODE))
                continue
            found.append(
                Finding(
                    kind=Kind.ALLOCATED_DRIFT,
                    subject=pool,
                    code=_CODE,
                    text=f"allocated_capacity_gb is {reported.allocated:g} and the volumes have {rows:g}: "
                    f"{self._cause(pool, drift)}",
                    numbers={"allocated": reported.allocated, "volumes": rows, "drift": drift},
                    volumes=tuple(self._moves_of(pool).left if drift > 0 else self._moves_of(pool).came),
                )
            )
        return found, ended

    def _cause(self, pool: str, drift: float) -> str:
        moves = self._moves_of(pool)
        left, came = sum(moves.left.values()), sum(moves.came.values())
        hidden = sum(row.size_gb for row in self._promised.rows_of(pool) if not row.counted)
        deleted = sum(moves.uncounted.values())
        if left and drift == left:
            return f"{len(moves.left)} volume(s) that were moved away still count there"
        if came and drift == -came:
            return f"{len(moves.came)} volume(s) that were moved here are not counted"
        if hidden and drift == -hidden:
            return "volumes that Cinder made for itself, such as cached images, are not counted"
        if deleted and drift == deleted:
            return "deleted volumes that Cinder had made for itself still count"
        backend = self._promised.backends.get(backend_of(pool))
        if backend is not None and backend.name != backend.host:
            return "several volume services of its cluster count, each only its own operations"
        if left or came:
            return "volumes were moved, and something else was counted wrong"
        return "it was so when the watch began, or a change went uncounted"

    def _moves_of(self, pool: str) -> _Moves:
        return self._moves.setdefault(pool, _Moves())
