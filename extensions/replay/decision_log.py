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
from tonnage.extensions.replay import log_records
from tonnage.extensions.replay.log_records import Decided, Line
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.decisions.decision_observer import DecisionObserver
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.steps.group_packing import GroupPacking

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
        """Begin another file if this one has been moved away; return whether it has. Raises OSError."""
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


class DecisionLog(DecisionObserver):
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
        self._recorded: set[str] = set()
        #: The rules that decide, from the first batch on.
        self._rules: Rules | None = None
        self._begin()

    def begin(self, rules: Rules) -> None:
        """Drop decisions that were not booked. Records of pools stay valid, and so do those of the same rules."""
        if rules is not self._rules:
            self._rules, self._told_rules = rules, False
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

    def packed(self, packing: GroupPacking, result: Sequence[Placement] | Refusal) -> None:
        """Record the decision on several volumes, all or none, before the table counts them."""
        if self._rest_until != -math.inf:
            return
        self._note_pools()
        members = packing.members
        placements = [] if isinstance(result, Refusal) else list(result)
        requests = [member.request for member in members]
        self._lines.append(
            Decided(
                time=_now(),
                request=f"{len(members)} volumes, all or none: {', '.join(request.describe() for request in requests)}",
                requests=requests,
                pools=[placement.pool for placement in placements],
                provisioning=[placement.provisioning for placement in placements],
                refusal=result.message if isinstance(result, Refusal) else None,
                together=True,
                copied_gb=[member.copied_gb for member in members],
                same=[sorted(member.same) for member in members],
                different=[sorted(member.different) for member in members],
                mates=[sorted(member.mates) for member in members],
            )
        )

    def booked(self) -> None:
        """Write the records of a batch. A full disk is logged and stops no decision."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            self._file.write(lines)
        except OSError as error:
            self._rest(error)

    def _rests(self) -> bool:
        """Return whether recording pauses because the file could not be written."""
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
        self._recorded.clear()
        # The table has derived no column under this key yet.
        self._key = object()

    def _note_pools(self) -> None:
        """Record the changes of pools since the last call."""
        table = self._hosts.table
        if not self._told_rules and self._rules is not None:
            self._note_rules(self._rules)
        pool_lines: dict[str, log_records.PoolLine] = {}
        self._changed(table, pool_lines)
        if pool_lines:
            self._recorded.update(pool_lines)
            self._lines += pool_lines.values()
        if len(self._recorded) != len(table):
            gone = self._recorded.difference(table.names)
            self._recorded -= gone
            self._lines.append(log_records.Gone(sorted(gone)))

    def _changed(self, table: PoolTable, pool_lines: dict[str, log_records.PoolLine]) -> None:
        """Collect the pools whose rows have changed: those for which the table computes a derived column again."""

        def figures(part: PoolTable) -> Column:
            rows = zip(*(getattr(part, name).tolist() for name in log_records.FIGURES), strict=True)
            entries = self._hosts.entries
            for name, row in zip(part.names, rows, strict=True):
                entry = entries.get(name)
                ratio = None if entry is None else entry.stats.ratio
                pool_lines[name] = log_records.PoolLine(name, log_records.figures(row, ratio))
            return np.zeros(len(part), dtype=np.bool_)

        def traits(part: PoolTable) -> Column:
            for pool in part:
                pool_traits = log_records.Traits(
                    pool.thin,
                    pool.thick,
                    pool.up,
                    pool.enabled,
                    pool.storage_id,
                    pool.availability_zone,
                    dict(pool.capabilities),
                    pool.expired,
                    pool.responsive,
                )
                line = pool_lines.get(pool.name)
                pool_lines[pool.name] = log_records.PoolLine(
                    pool.name, None if line is None else line.figures, pool_traits
                )
            return np.zeros(len(part), dtype=np.bool_)

        table.derived((self._key, "figures"), figures)
        table.derived_from_traits((self._key, "traits"), traits)

    def _note_rules(self, rules: Rules) -> None:
        self._lines.append(
            log_records.Rules(
                time=_now(),
                host=self._host,
                filters=[plugin.name for plugin in rules.filters.filters],
                weighers={weigher.name: weigher.multiplier for weigher in rules.weighers.weighers},
                calculation=self._hosts.calculation,
                default_ratio=self._hosts.default_ratio,
                volumes=rules.counts_volumes,
                begins=self._begins,
            )
        )
        self._told_rules, self._begins = True, False


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
