# SPDX-License-Identifier: Apache-2.0
"""The decision log: a file that each decision is appended to, with the figures behind it, for a replay."""

import datetime
import fcntl
import logging
import math
import os
import time
from collections.abc import Callable, Sequence

import numpy as np

from tonnage.capacity import errors
from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.pools.derived_columns import Column
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.scheduler.decisions.pool_selection import Rules
from tonnage.scheduler.decisions.steps.group_packing import GroupPacking
from tonnage.scheduler.host_manager import HostManager
from tonnage.scheduler.simulation import log_records
from tonnage.scheduler.simulation.log_records import Decided, Line

LOG = logging.getLogger(__name__)

#: Seconds until recording is tried again after it has failed.
_REST = 60.0


class LogFile:
    """A file that lines are appended to by this process alone."""

    def __init__(self, path: str) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` if it cannot be written, or another does."""
        self._path = path
        try:
            self._file, self._inode = self._open()
        except BlockingIOError:
            raise errors.ConfigurationError(
                f"option decision_log: another process writes to {path}; each scheduler needs a file of its own, for "
                "example with ${host} in its name"
            ) from None
        except OSError as error:
            raise errors.ConfigurationError(
                f"option decision_log: {path} cannot be written: {error.strerror}"
            ) from None

    def begin_anew(self) -> bool:
        """Begin another file if this one has been moved away; tell whether it has. Raises OSError."""
        try:
            if os.stat(self._path).st_ino == self._inode:
                return False
        except FileNotFoundError:
            pass
        file, inode = self._open()
        os.close(self._file)
        self._file, self._inode = file, inode
        return True

    def write(self, lines: Sequence[Line]) -> None:
        """Append lines. Raises OSError; a part may have been written then."""
        text = b"".join(log_records.encode(line) + b"\n" for line in lines)
        while text:
            text = text[os.write(self._file, text) :]

    def end_line(self) -> None:
        """End a line that was written in part. Raises OSError."""
        os.write(self._file, b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self) -> tuple[int, int]:
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(file)
            if status.st_size and os.pread(file, 1, status.st_size - 1) != b"\n":
                # Whoever wrote it was killed.
                os.write(file, b"\n")
        except OSError:
            os.close(file)
            raise
        return file, status.st_ino


class DecisionLog:
    """Collects the decisions of a batch with their figures, and writes them once they are booked.

    Belongs to the decision thread. ``hosts`` has the table that the decisions read.
    """

    def __init__(
        self, file: LogFile, host: str, hosts: HostManager, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = file
        self._host = host
        self._hosts = hosts
        self._clock = clock
        self._rest_until = -math.inf
        self._lines: list[Line] = []
        self._known: set[str] = set()
        self._begin()

    def apply_rules(self, rules: Rules) -> None:
        """Record that other rules decide from now on."""
        self._rules = rules
        self._told_rules = False

    def start_batch(self) -> None:
        """Drop decisions that were not booked. Records of pools stay valid."""
        self._lines = [line for line in self._lines if not isinstance(line, Decided)]
        if self._rests() or self._lines:
            return
        try:
            if self._file.begin_anew():
                self._begin()
        except OSError as error:
            self._rest(error)

    def decided(self, pools: PoolTable, rules: Rules, request: Request, decision: Decision, *, in_place: bool) -> None:
        """Record the decision on one volume, before the table counts it."""
        if self._rest_until != -math.inf:
            return
        self._note_pools()
        self._lines.append(
            Decided(
                time=_now(),
                request=request.describe(),
                requests=[request],
                pools=[decision.pool] if isinstance(decision, Placement) else [],
                provisioning=[decision.provisioning] if isinstance(decision, Placement) else [],
                refusal=decision.message if isinstance(decision, Refusal) else None,
                in_place=in_place,
            )
        )

    def packed(self, packing: GroupPacking, found: Sequence[Placement] | Refusal) -> None:
        """Record the decision on several volumes, all or none, before the table counts them."""
        if self._rest_until != -math.inf:
            return
        self._note_pools()
        members = packing.members
        placements = [] if isinstance(found, Refusal) else list(found)
        requests = [member.request for member in members]
        self._lines.append(
            Decided(
                time=_now(),
                request=f"{len(members)} volumes, all or none: {', '.join(each.describe() for each in requests)}",
                requests=requests,
                pools=[each.pool for each in placements],
                provisioning=[each.provisioning for each in placements],
                refusal=found.message if isinstance(found, Refusal) else None,
                together=True,
                copied_gb=[each.copied_gb for each in members],
                same=[sorted(each.same) for each in members],
                different=[sorted(each.different) for each in members],
                mates=[sorted(each.mates) for each in members],
            )
        )

    def write(self) -> None:
        """Write the records of a batch. A full disk is logged and stops no decision."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            self._file.write(lines)
        except OSError as error:
            self._rest(error)

    def _rests(self) -> bool:
        """Tell whether nothing is noted for a while, as it could not be written."""
        if self._rest_until == -math.inf:
            return False
        if self._clock() < self._rest_until:
            return True
        try:
            self._file.end_line()
        except OSError:
            self._rest_until = self._clock() + _REST
            return True
        self._rest_until = -math.inf
        LOG.info("Decisions are recorded again")
        return False

    def _rest(self, error: OSError) -> None:
        LOG.error("Decisions are not recorded for now: %s", error.strerror)
        self._rest_until = self._clock() + _REST
        self._begin()

    def _begin(self) -> None:
        """Begin with the next decision, as if nothing had been written."""
        self._lines.clear()
        self._told_rules, self._begins = False, True
        self._known.clear()
        # What is derived under it has seen nothing yet.
        self._key = object()

    def _note_pools(self) -> None:
        """Note all that has changed of pools since the last time."""
        table = self._hosts.table
        if not self._told_rules:
            self._note_rules()
        found: dict[str, log_records.PoolLine] = {}
        self._changed(table, found)
        if found:
            self._known.update(found)
            self._lines += found.values()
        if len(self._known) != len(table):
            gone = self._known.difference(table.names)
            self._known -= gone
            self._lines.append(log_records.Gone(sorted(gone)))

    def _changed(self, table: PoolTable, found: dict[str, log_records.PoolLine]) -> None:
        """Collect the pools whose rows have changed: those for which a derived column is to be worked out again."""

        def figures(part: PoolTable) -> Column:
            rows = zip(*(getattr(part, name).tolist() for name in log_records.FIGURES), strict=True)
            entries = self._hosts.entries
            for name, row in zip(part.names, rows, strict=True):
                entry = entries.get(name)
                ratio = None if entry is None else entry.stats.ratio
                found[name] = log_records.PoolLine(name, log_records.figures(row, ratio))
            return np.zeros(len(part), dtype=np.bool_)

        def traits(part: PoolTable) -> Column:
            for pool in part:
                known = log_records.Traits(
                    pool.thin,
                    pool.thick,
                    pool.up,
                    pool.enabled,
                    pool.storage_id,
                    pool.availability_zone,
                    dict(pool.capabilities),
                    pool.expired,
                )
                line = found.get(pool.name)
                found[pool.name] = log_records.PoolLine(pool.name, None if line is None else line.figures, known)
            return np.zeros(len(part), dtype=np.bool_)

        table.derived((self._key, "figures"), figures)
        table.derived_from_traits((self._key, "traits"), traits)

    def _note_rules(self) -> None:
        self._lines.append(
            log_records.Rules(
                time=_now(),
                host=self._host,
                filters=[each.name for each in self._rules.filters.filters],
                weighers={each.name: each.multiplier for each in self._rules.weighers.weighers},
                calculation=self._hosts.calculation,
                default_ratio=self._hosts.default_ratio,
                volumes=self._rules.counts_volumes,
                begins=self._begins,
            )
        )
        self._told_rules, self._begins = True, False


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
