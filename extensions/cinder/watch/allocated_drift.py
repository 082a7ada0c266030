# SPDX-License-Identifier: Apache-2.0
"""Drift of ``allocated_capacity_gb``: the count of a volume service against the sum of the rows, with its cause.

cinder-volume counts volumes anew at its start, and then adds and subtracts. A report is compared only if no volume of
the pool changed between the report before it and the read of the rows after it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tonnage.capacity.pools.pool import backend_of
from tonnage.extensions.cinder.decoding.cinder_messages import MOVES, Command
from tonnage.extensions.cinder.decoding.cinder_rows import VolumeRow
from tonnage.extensions.cinder.watch.findings import Category, Finding, Key
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity

_CODE = "allocated"

#: Seconds after a report before which rows may not show all changes that it contains.
_MARGIN = 2.0


@dataclass(slots=True)
class _Moves:
    """The moves since the count of a pool was last right: GiB by volume.

    ``uncounted`` are deleted volumes that Cinder had made for itself, outside of the quota.
    """

    moved_out: dict[str, int] = field(default_factory=dict)
    moved_in: dict[str, int] = field(default_factory=dict)
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
            self._moves_of(str(source)).moved_out[command.volume_id] = command.size_gb
            self._moves_of(command.pool).moved_in[command.volume_id] = command.size_gb

    def note_gone(self, row: VolumeRow) -> None:
        """Note the row of a volume that is gone."""
        if not row.counted and row.pool is not None:
            self._moves_of(row.pool).uncounted[row.id] = row.size_gb

    def note_report(self, pools: Iterable[str], sent_at: float) -> None:
        """Note pools to be compared with the next rows."""
        for pool in pools:
            self._pending[pool] = sent_at

    def compare(self, read_at: float) -> tuple[list[Finding], list[Key]]:
        """Compare the pending pools with rows read at ``read_at``; return the findings, and the keys of ended ones."""
        findings, ended = [], []
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
                ended.append((Category.ALLOCATED_DRIFT.value, pool, _CODE))
                continue
            findings.append(
                Finding(
                    category=Category.ALLOCATED_DRIFT,
                    subject=pool,
                    code=_CODE,
                    text=f"allocated_capacity_gb is {reported.allocated:g} and the volumes have {rows:g}: "
                    f"{self._cause(pool, drift)}",
                    numbers={"allocated": reported.allocated, "volumes": rows, "drift": drift},
                    volumes=tuple(self._moves_of(pool).moved_out if drift > 0 else self._moves_of(pool).moved_in),
                )
            )
        return findings, ended

    def _cause(self, pool: str, drift: float) -> str:
        moves = self._moves_of(pool)
        moved_out, moved_in = sum(moves.moved_out.values()), sum(moves.moved_in.values())
        hidden = sum(row.size_gb for row in self._promised.rows_of(pool) if not row.counted)
        deleted = sum(moves.uncounted.values())
        if moved_out and drift == moved_out:
            return f"{len(moves.moved_out)} volume(s) that were moved away still count there"
        if moved_in and drift == -moved_in:
            return f"{len(moves.moved_in)} volume(s) that were moved here are not counted"
        if hidden and drift == -hidden:
            return "volumes that Cinder made for itself, such as cached images, are not counted"
        if deleted and drift == deleted:
            return "deleted volumes that Cinder had made for itself still count"
        backend = self._promised.backends.get(backend_of(pool))
        if backend is not None and backend.name != backend.host:
            return "several volume services of its cluster count, each only its own operations"
        if moved_out or moved_in:
            return "volumes were moved, and something else was counted wrong"
        return "it was so when the watch began, or a change went uncounted"

    def _moves_of(self, pool: str) -> _Moves:
        return self._moves.setdefault(pool, _Moves())
