# SPDX-License-Identifier: Apache-2.0
"""The history of each pool in the ledger, and the wrong refusals that it proves.

Triggers record each change of a pool's row and each report of a backend, in the transaction of the change. So the
history is complete, and it does not depend on the cache of any scheduler.

A refusal is wrong if, during the whole time from the first sending of the request to its answer, some pool for such
volumes had room for it and its backend was not silent. The whole time includes every state of the row that may have
been visible: from its write (before its commit) until a check has first seen its successor (after that one's commit).
"""

import bisect
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa

from chaos.plan import THICK, THIN, Plan, PoolPlan
from chaos.requesters import REFUSED, SentRequest

#: Seconds since 1970 by the database's clock, which is this machine's.
_NOW = {
    "postgresql": "EXTRACT(EPOCH FROM clock_timestamp())",
    "mysql": "UNIX_TIMESTAMP(SYSDATE(6))",
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
}
_KEY = {
    "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "mysql": "BIGINT AUTO_INCREMENT PRIMARY KEY",
    "sqlite": "INTEGER PRIMARY KEY",
}
_FIGURES = (
    "name",
    "present",
    "provisioned_capacity_gb",
    "in_flight_gb",
    "in_flight_physical_gb",
    "thin_limit_gb",
    "physical_limit_gb",
    "ratio",
)
#: Range of row numbers below the highest known one that are read again, because commits have another order.
_LAG = 3000
#: Requests whose possible pools depend on the current pool of the volume, which the history does not contain.
_MOVES = ("migrate", "retype")
#: Tolerance in GiB for the rounding of binary fractions.
_TOLERANCE = 1e-6


class Report(NamedTuple):
    """A report in the ledger. Times are as in :class:`State`."""

    at: float
    seen: float


@dataclass(slots=True)
class State:
    """A pool's row. ``at`` is the time of its write, ``seen`` the time of the first check that has read it."""

    at: float
    seen: float
    thin_room_gb: float
    thin_largest_gb: float
    thick_room_gb: float


@dataclass(slots=True)
class History:
    """The history of one run. :meth:`look` must be called regularly."""

    plan: Plan
    engine: sa.Engine
    full_name: Callable[[int, str], str]
    pools: dict[str, dict[int, State]] = field(default_factory=lambda: defaultdict(dict))
    reports: dict[str, list[Report]] = field(default_factory=lambda: defaultdict(list))
    _known: dict[str, set[int]] = field(default_factory=lambda: {"torture_pools": set(), "torture_reports": set()})

    def install(self) -> None:
        """Create tables and triggers."""
        dialect = self.engine.dialect.name
        columns = ", ".join(f"{name} {_type(name)}" for name in _FIGURES)
        new = ", ".join(f"NEW.{name}" for name in _FIGURES)
        names = ", ".join(_FIGURES)
        key, now = _KEY[dialect], _NOW[dialect]
        pools = f"INSERT INTO torture_pools (at, {names}) VALUES ({now}, {new});"
        reports = f"INSERT INTO torture_reports (at, name) VALUES ({now}, NEW.name);"
        heard = "COALESCE(NEW.last_report_at <> OLD.last_report_at, NEW.last_report_at IS NOT NULL)"
        statements = [
            f"CREATE TABLE torture_pools (id {key}, at DOUBLE PRECISION, {columns})",
            f"CREATE TABLE torture_reports (id {key}, at DOUBLE PRECISION, name VARCHAR(255))",
        ]
        if dialect == "postgresql":
            for name, event, body in (
                ("pools", "INSERT OR UPDATE ON pools FOR EACH ROW", pools),
                ("reports", f"UPDATE ON backends FOR EACH ROW WHEN ({heard})", reports),
            ):
                statements += [
                    f"CREATE FUNCTION torture_{name}() RETURNS trigger LANGUAGE plpgsql AS "
                    f"$$ BEGIN {body} RETURN NULL; END $$",
                    f"CREATE TRIGGER torture_{name} AFTER {event} EXECUTE FUNCTION torture_{name}()",
                ]
        else:
            for event in ("INSERT", "UPDATE"):
                statements.append(
                    f"CREATE TRIGGER torture_pools_{event} AFTER {event} ON pools FOR EACH ROW BEGIN {pools} END"
                )
            body = f"IF {heard} THEN {reports} END IF;" if dialect == "mysql" else reports
            when = "" if dialect == "mysql" else f"WHEN {heard}"
            statements.append(
                f"CREATE TRIGGER torture_reports AFTER UPDATE ON backends FOR EACH ROW {when} BEGIN {body} END"
            )
        with self.engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def look(self, connection: sa.Connection, seen: float) -> None:
        """Read new rows in a snapshot that was taken at ``seen`` or before."""
        for row in self._new(connection, "torture_pools", ", ".join(_FIGURES)):
            number, at, name, *figures = row
            self.pools[name][number] = _state(at, seen, *figures)
        for row in self._new(connection, "torture_reports", "name"):
            self.reports[row[2]].append(Report(row[1], seen))

    def _new(self, connection: sa.Connection, table: str, columns: str) -> list[Any]:
        known = self._known[table]
        low = max(known, default=0) - _LAG
        rows = connection.exec_driver_sql(f"SELECT id, at, {columns} FROM {table} WHERE id > {low} ORDER BY id").all()
        fresh = [row for row in rows if row[0] not in known]
        known.update(row[0] for row in fresh)
        self._known[table] = {number for number in known if number > low}
        return fresh

    def wrong_refusals(self, asked: Sequence[SentRequest]) -> list[str]:
        """Return a description of each wrong refusal."""
        states = {name: _Line([state for _, state in sorted(rows.items())]) for name, rows in self.pools.items()}
        for reports in self.reports.values():
            reports.sort()
        wrong = []
        for one in asked:
            if one.outcome == REFUSED and one.wish.verb not in _MOVES and (why := self._wrong(one, states)):
                wrong.append(f"{one.request_id}: {one.why} - but {why}")
        return wrong

    def _wrong(self, one: SentRequest, states: dict[str, "_Line"]) -> str | None:
        if one.volume is not None:
            candidates = [pool for pool in self.plan.pools if self._name(pool) == self._where(one)]
            # The largest possible growth since the creation, because an earlier extend may have failed.
            size = one.new_size_gb - one.volume.created_gb
        else:
            candidates = [pool for pool in self.plan.pools if one.wish.kind is None or pool.makes(one.wish.kind)]
            size = one.wish.size_gb
        count, fit, best = one.wish.count if one.wish.verb == "group" else 1, 0, ""
        for pool in candidates:
            fits = self._fits(pool, one, size, states)
            if fits:
                fit += fits
                best = best or f"{self._name(pool)} had room for {fits} x {size} GiB throughout"
        return best if fit >= count else None

    def _where(self, one: SentRequest) -> str:
        return one.pools[0] if one.pools else ""

    def _fits(self, pool: PoolPlan, one: SentRequest, size: int, states: dict[str, "_Line"]) -> int:
        """Return the number of volumes of that size for which the pool had room during the whole request."""
        name = self._name(pool)
        if not self._heard(name.partition("#")[0], one.sent, one.answered):
            return 0
        line = states.get(name)
        seen = [] if line is None else line.visible(one.sent, one.answered)
        if not seen:
            return 0
        if one.volume is not None:
            kinds = [kind for kind in (THIN, THICK) if pool.makes(kind)]  # the volume's own kind is not known here
        else:
            kinds = [one.wish.kind or (THIN if pool.makes(THIN) else THICK)]
        return max(0, min(math.floor((_room(seen, kind, size) + _TOLERANCE) / size) for kind in kinds))

    def _heard(self, backend: str, begin: float, end: float) -> bool:
        """Return whether the backend was up for every possible reader at any time between the two."""
        reports = self.reports.get(backend, [])
        first = bisect.bisect_right(reports, begin, key=lambda report: report.seen)
        last = bisect.bisect_right(reports, end, key=lambda report: report.at)
        known, longest = reports[first - 1].at if first else -math.inf, 0.0
        for report in reports[first:last]:
            # Until a check has seen this report, a scheduler may have known only the previous one.
            longest = max(longest, min(report.seen, end) - known)
            known = report.at
        return max(longest, end - known) < self.plan.timing.service_down_time - 1

    def _name(self, pool: PoolPlan) -> str:
        return self.full_name(pool.agent, pool.name)


class _Line:
    """The states of one pool in order; both times increase."""

    def __init__(self, states: Sequence[State]) -> None:
        self._states = states
        self._written = [state.at for state in states]
        self._seen = [state.seen for state in states]

    def visible(self, begin: float, end: float) -> Sequence[State]:
        """Return the states that may have been visible between the two times."""
        # From the last state seen before, because its predecessor was replaced by then, to the last state written.
        first = max(0, bisect.bisect_left(self._seen, begin) - 1)
        return self._states[first : bisect.bisect_right(self._written, end)]


def _room(seen: Sequence[State], kind: str, size: int) -> float:
    if kind == THICK:
        return min(state.thick_room_gb for state in seen)
    if min(state.thin_largest_gb for state in seen) < size:
        return 0.0
    return min(state.thin_room_gb for state in seen)


def _state(
    at: float,
    seen: float,
    present: bool,
    provisioned: float | None,
    in_flight: int,
    in_flight_physical: int,
    thin_limit: float | None,
    physical_limit: float | None,
    ratio: float,
) -> State:
    if not present or provisioned is None or thin_limit is None or physical_limit is None:
        return State(at, seen, 0.0, 0.0, 0.0)  # without figures the pool proves nothing
    physical = physical_limit - in_flight_physical
    return State(at, seen, thin_limit - provisioned - in_flight, physical * ratio + _TOLERANCE, physical)


def _type(column: str) -> str:
    return {"name": "VARCHAR(511)", "present": "BOOLEAN"}.get(column, "DOUBLE PRECISION")
