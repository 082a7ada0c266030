# SPDX-License-Identifier: Apache-2.0
"""The independent checker of the ledger and the storage, during the run and at its end.

Each check reads the database in one snapshot, and the agents' storage right before and after it. The record counts the
errors and keeps one example of each kind. A successful run has an empty record.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from chaos.cluster import Cluster
from chaos.history import History
from chaos.plan import THICK, THIN
from chaos.requesters import PLACED, TURNED_AWAY, UNANSWERED, Requesters

_INTERVAL = 1.0
_FAILED = ("error", "error_extending", "error_deleting")
_MOVING = ("creating", "extending", "deleting", "maintenance", "retyping")
_OPEN = ("pending", "abandoned")
_LIVE = ("pending", "confirmed", "abandoned")

#: Packages whose errors mean that the database is unavailable.
_DATABASES = ("sqlalchemy", "oslo_db", "psycopg", "pymysql", "sqlite3")

#: The content of the storage: by pool (its full name) and volume id, the size in GiB and the provisioning type.
Held = Mapping[str, Mapping[str, tuple[int, str]]]


@dataclass(slots=True)
class Record:
    """The errors: their number and size, and the first example of each kind."""

    over_commit_gb: float = 0.0
    broken: int = 0
    looks: int = 0
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, kind: str, text: str) -> None:
        """Keep the first example of each kind."""
        self.examples.setdefault(kind, text)


class Checker:
    """A thread that checks about every second until it is stopped."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self._cluster = cluster
        self._history = history
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.record = Record()

    def start(self) -> None:
        """Start the checks."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the checks."""
        self._stopping.set()
        self._thread.join()

    def quiet(self) -> bool:
        """Return whether all operations have ended, nothing is in flight and there is no drift."""
        try:
            with self.snapshot() as connection:
                moving = _number(connection, f"SELECT COUNT(*) FROM volumes WHERE status IN {_MOVING}")
                flying = _number(connection, f"SELECT COUNT(*) FROM claims WHERE state IN {_OPEN} OR NOT contained")
                return moving == 0 and flying == 0 and self._drift(connection, self.held()) == 0
        except sa.exc.SQLAlchemyError:  # the database may still be starting
            return False

    def half_deleted(self) -> list[str]:
        """Return the volumes whose deletion has failed, so that their owners delete them again."""
        try:
            with self.snapshot() as connection:
                rows = connection.exec_driver_sql("SELECT id FROM volumes WHERE status = 'error_deleting'")
                return list(rows.scalars())
        except sa.exc.SQLAlchemyError:
            return []

    def held(self) -> Held:
        """Return the content of the storage of all agents, for each agent at one moment."""
        return {
            self._cluster.full_name(agent.number, pool): volumes
            for agent in self._cluster.agents
            for pool, volumes in agent.held().items()
        }

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Yield a consistent view of the database without locks."""
        engine = self._cluster.engine
        if engine.dialect.name == "sqlite":
            engine = engine.execution_options(tonnage_read_only=True)
        else:
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with engine.connect() as connection, connection.begin():
            yield connection

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL):
            try:
                self.look()
            except Exception as error:
                if type(error).__module__.partition(".")[0] not in _DATABASES:
                    self._broken("checker", f"the check failed: {type(error).__name__}: {error}")
                # Otherwise the database is being restarted.

    def look(self) -> None:
        """Check once."""
        before = self.held()
        with self.snapshot() as connection:
            self._counters(connection)
            # The first statement has taken the snapshot.
            seen = time.time()
            figures = {
                row[0]: row[1:]
                for row in connection.exec_driver_sql(
                    "SELECT p.name, p.provisioned_capacity_gb, p.in_flight_gb, p.allocated_capacity_gb -"
                    # A volume in deletion may be gone from storage and reports before the ledger has the outcome, or
                    # although its driver reported a failure.
                    " (SELECT COALESCE(SUM(c.size_gb), 0) FROM claims c WHERE c.pool_id = p.id"
                    f" AND c.state IN {_LIVE} AND (EXISTS (SELECT 1 FROM claims d WHERE d.volume_id = c.volume_id"
                    " AND d.pool_id = c.pool_id AND d.verb IN ('delete', 'purge') AND d.state = 'pending')"
                    " OR EXISTS (SELECT 1 FROM volumes v WHERE v.id = c.volume_id AND v.status = 'error_deleting')))"
                    " FROM pools p"
                )
            }
            self._history.look(connection, seen)
        after = self.held()
        self._limits(before)
        self._limits(after)
        self._counted(before, figures, after)
        self.record.looks += 1

    def _counters(self, connection: sa.Connection) -> None:
        """Check that the counters equal the sums of the claims, and that none is negative."""
        for name, *rest in connection.exec_driver_sql(
            "SELECT p.name, p.allocated_capacity_gb, p.in_flight_gb, p.in_flight_physical_gb,"
            f" COALESCE(SUM(CASE WHEN c.state IN {_LIVE} THEN c.size_gb ELSE 0 END), 0),"
            " COALESCE(SUM(CASE WHEN NOT c.contained THEN c.size_gb ELSE 0 END), 0),"
            " COALESCE(SUM(CASE WHEN NOT c.contained THEN c.physical_gb ELSE 0 END), 0)"
            " FROM pools p LEFT JOIN claims c ON c.pool_id = p.id"
            " GROUP BY p.id, p.name, p.allocated_capacity_gb, p.in_flight_gb, p.in_flight_physical_gb"
        ):
            counters, claims = [int(one) for one in rest[:3]], [int(one) for one in rest[3:]]
            if counters != claims or min(counters) < 0:
                self._broken(
                    "counters", f"{name}: allocated, in flight, physical are {counters}, claims sum to {claims}"
                )
        for name, allocated, pools in connection.exec_driver_sql(
            "SELECT b.name, b.allocated_capacity_gb, COALESCE(SUM(p.allocated_capacity_gb), 0) FROM backends b"
            " LEFT JOIN pools p ON p.backend_id = b.id GROUP BY b.id, b.name, b.allocated_capacity_gb"
        ):
            if int(allocated) != int(pools):
                self._broken("backends", f"{name}: allocated is {allocated}, its pools have {pools}")

    def _limits(self, held: Held) -> None:
        """Check that no pool stores more than its limits."""
        for pool in self._cluster.plan.pools:
            name = self._cluster.full_name(pool.agent, pool.name)
            volumes = held.get(name, {}).values()
            for kind, limit in ((THIN, pool.thin_limit_gb), (THICK, pool.thick_limit_gb)):
                over = sum(size for size, made in volumes if made == kind) - limit
                if over > 0:
                    self._over("over-commit", over, f"{name} holds {over:g} GiB {kind} above its limit of {limit:g}")

    def _counted(self, before: Held, figures: Mapping[str, Any], after: Held) -> None:
        """Check that volumes stored during the whole check are counted, and that promises stay within the limit.

        ``figures`` maps each pool to its provisioned, in-flight and promised capacity in GiB.
        """
        for pool in self._cluster.plan.pools:
            name = self._cluster.full_name(pool.agent, pool.name)
            if name not in figures:
                continue
            provisioned, in_flight, wanted = (float(value or 0) for value in figures[name])
            there = sum(
                min(size, after.get(name, {}).get(id, (0, ""))[0]) for id, (size, _) in before.get(name, {}).items()
            )
            if there > provisioned + in_flight:
                self._broken(
                    "not counted",
                    f"{name} holds {there} GiB, the ledger counts {provisioned:g} provisioned, {in_flight:g} in flight",
                )
            limit = {THIN: pool.thin_limit_gb, THICK: pool.thick_limit_gb}.get(pool.kind)
            if limit is not None and wanted > limit:
                over = wanted - limit
                self._over("over-promise", over, f"{name} has promised {wanted:g} GiB, its limit is {limit:g}")

    def _broken(self, kind: str, text: str) -> None:
        self.record.broken += 1
        self.record.note(kind, text)

    def _over(self, kind: str, gb: float, text: str) -> None:
        self.record.over_commit_gb = max(self.record.over_commit_gb, gb)
        self.record.note(kind, text)

    def _drift(self, connection: sa.Connection, held: Held) -> float:
        """Return the difference between ledger and storage in GiB: allocated, provisioned and in-flight capacity."""
        drift = 0.0
        shown = self._orphans(connection, held)
        for name, allocated, provisioned, in_flight in connection.exec_driver_sql(
            "SELECT name, allocated_capacity_gb, provisioned_capacity_gb, in_flight_gb FROM pools"
        ):
            there = sum(size for size, _ in held.get(name, {}).values())
            orphans = sum(held[name][volume_id][0] for volume_id in shown.get(name, ()))
            off = abs(int(allocated) - (there - orphans)) + abs(float(provisioned or 0) - there) + abs(int(in_flight))
            if off:
                self.record.note(
                    "drift",
                    f"{name}: {there} stored, {allocated} allocated, {provisioned} provisioned, {in_flight} in flight; "
                    + "; ".join(self._unlike(connection, name, held.get(name, {}))),
                )
            drift += off
        return drift

    def _orphans(self, connection: sa.Connection, held: Held) -> dict[str, set[str]]:
        """Return the orphans on the storage that operators can see, by pool.

        Orphans are permitted: a killed agent may leave a copy of a migration, which the next agent finds and cannot
        finish. No claim counts the copy, and Tonnage deletes nothing without a command.
        """
        found = defaultdict(set)
        for name, volume_id in connection.exec_driver_sql(
            "SELECT p.name, d.volume_id FROM discrepancies d JOIN pools p ON p.id = d.pool_id"
            " WHERE d.category = 'orphan'"
            " AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.pool_id = p.id AND c.volume_id = d.volume_id)"
        ):
            if volume_id in held.get(name, {}):
                found[name].add(volume_id)
        return found

    def _unlike(self, connection: sa.Connection, pool: str, held: Mapping[str, tuple[int, str]]) -> Iterator[str]:
        """Yield the volumes whose stored size differs from their claims."""
        claims = connection.execute(
            sa.text(
                "SELECT c.volume_id, c.verb, c.state, c.size_gb, v.status FROM claims c"
                " JOIN pools p ON p.id = c.pool_id LEFT JOIN volumes v ON v.id = c.volume_id WHERE p.name = :pool"
            ),
            {"pool": pool},
        ).all()
        live = [row for row in claims if row.state in ("pending", "confirmed", "abandoned")]
        for volume_id in sorted(held.keys() | {row.volume_id for row in live}):
            there = held.get(volume_id, (0, ""))[0]
            if there != sum(row.size_gb for row in live if row.volume_id == volume_id):
                known = [tuple(row[1:]) for row in claims if row.volume_id == volume_id]
                yield f"volume {volume_id} has {there} GiB on the storage and the claims {known}"

    def at_rest(self, requesters: Requesters) -> dict[str, float]:
        """Run the last check after all operations; return the orphans, losses, duplicates, drift and leaked claims."""
        self.record.examples.pop("drift", None)
        self.look()
        held = self.held()
        with self.snapshot() as connection:
            drift = self._drift(connection, held)
            leaked = self._leaked(connection)
            lost = self._lost(connection, requesters, held)
            orphans = self._orphans(connection, held)
            double = self._double(connection, requesters, held, orphans)
        count = sum(len(names) for names in orphans.values())
        return {"orphans": count, "lost": lost, "duplicates": double, "drift_gb": drift, "leaked_claims": leaked}

    def _leaked(self, connection: sa.Connection) -> int:
        rows = connection.exec_driver_sql(
            "SELECT c.id, c.verb, c.volume_id, p.name, v.status FROM claims c JOIN pools p ON p.id = c.pool_id"
            f" LEFT JOIN volumes v ON v.id = c.volume_id WHERE c.state IN {_OPEN}"
        ).all()
        for row in rows:
            self.record.note("leaked", f"claim {row[0]} is open: {row[1]} of volume {row[2]} ({row[4]}) on {row[3]}")
        return len(rows)

    def _lost(self, connection: sa.Connection, requesters: Requesters, held: Held) -> int:
        """Count granted requests without their effect and without an error message, and unanswered requests."""
        rows = {
            row[0]: row[1:]
            for row in connection.exec_driver_sql(
                "SELECT v.id, v.size_gb, v.status, v.status_reason, p.name"
                " FROM volumes v LEFT JOIN pools p ON p.id = v.pool_id"
            )
        }
        told = Counter(
            row[0]
            for row in connection.exec_driver_sql(
                "SELECT resource_id FROM messages WHERE event = 'volume_extend_failed'"
            )
        )
        lost = 0
        for volume in requesters.volumes.values():
            problem = None
            size, status, reason, pool = rows.get(volume.id, (0, "gone", None, None))
            there = held.get(pool, {}).get(volume.id, (0, ""))[0]
            if volume.deleted:
                if status != "gone":
                    problem = "was deleted and is still in the ledger"
            elif status in _FAILED and reason:
                continue
            elif status != "available" or there != size:
                problem = "is missing or has another size"
            elif size < volume.size_gb and not told[volume.id]:
                problem = "has lost an extend"
            if problem:
                lost += 1
                asked = [f"{o.wish.verb} {o.outcome} {o.why}" for o in requesters.asked if o.volume is volume]
                self.record.note(
                    "lost",
                    f"volume {volume.id} ({volume.size_gb} GiB) {problem}: {status}, {size} GiB; {there} GiB in {pool};"
                    f" later requests: {asked}",
                )
        for one in requesters.asked:
            if one.outcome == UNANSWERED:
                lost += 1
                self.record.note("unanswered", f"request {one.request_id} ({one.wish.verb}): {one.why}")
            elif one.outcome == TURNED_AWAY and one.volume is None:
                lost += 1
                self.record.note("turned away", f"request {one.request_id} ({one.wish.verb}): {one.why}")
        return lost

    def _double(
        self, connection: sa.Connection, requesters: Requesters, held: Held, orphans: Mapping[str, set[str]]
    ) -> int:
        """Count volumes in two pools, volumes without a granted request, and unexpected answers."""
        places: dict[str, list[str]] = defaultdict(list)
        for pool, volumes in held.items():
            for volume_id in volumes.keys() - orphans.get(pool, set()):
                places[volume_id].append(pool)
        double = 0
        for volume_id, pools in places.items():
            if len(pools) > 1:
                double += 1
                self.record.note("double", f"volume {volume_id} is in {' and '.join(pools)}")
        known = {row[0] for row in connection.exec_driver_sql("SELECT id FROM volumes")}
        granted = {id for one in requesters.asked if one.outcome == PLACED for id in one.volume_ids}
        for volume_id in (known | places.keys()) - granted:
            double += 1
            where = " and ".join(places[volume_id]) or "no pool"
            self.record.note("unrequested", f"volume {volume_id} belongs to no granted request and is in {where}")
        for text in requesters.surprises:
            double += 1
            self.record.note("surprise", text)
        return double


def _number(connection: sa.Connection, statement: str) -> int:
    return int(connection.exec_driver_sql(statement).scalar_one())
