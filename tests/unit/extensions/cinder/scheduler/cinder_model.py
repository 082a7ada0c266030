# SPDX-License-Identifier: Apache-2.0
"""A model of Cinder around the real ledger: rows, queues, a volume service, its storage, schedulers that are killed.

Everything that may happen in any order is a turn: a step of a scheduler, a message that arrives, a look that begins or
ends, a restart. One pool, thin, with ratio 1: the volumes on the storage must never exceed its size.
"""

import contextlib
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from tests.unit.scheduler.ledgers import in_memory
from tonnage.capacity.request import Provisioning
from tonnage.extensions.cinder.ledger import observed_claims, probes
from tonnage.extensions.cinder.scheduler import claim_ends, placing
from tonnage.ledger import models
from tonnage.ledger.claims import bookings
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import reports
from tonnage.ledger.models import claim_verbs

BACKEND = "real@b1"
POOLS = (f"{BACKEND}#a", f"{BACKEND}#b")
TOTAL = 12


@dataclass
class Row:
    """The row of a volume."""

    id: str
    size_gb: int
    pool: str | None = None
    status: str = "creating"
    migration_status: str = ""
    new_size: int = 0
    project_id: str = "project"
    group_id: str | None = None


@dataclass(frozen=True)
class Create:
    """A request to create a volume, as it waits for a scheduler. ``failed`` are the pools that have failed."""

    volume_id: str
    attempt: int = 1
    failed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Command:
    """A command that waits for the volume service."""

    verb: str
    volume_id: str
    pool: str
    size_gb: int
    attempt: int = 1
    failed: frozenset[str] = frozenset()


@dataclass
class Report:
    """A report under way: ``number`` is that of the probe it answers, None for a periodic one."""

    number: int | None
    figures: dict[str, int] = field(default_factory=dict)


class World:
    """All of it. ``chance`` decides what happens."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.database = Database(in_memory(self), max_retries=0)
        self.rows: dict[str, Row] = {}
        self.storage: dict[str, dict[str, int]] = {pool: {} for pool in POOLS}
        self.requests: list[Create] = []
        self.commands: list[Command] = []
        self.schedulers: list[Iterator[None]] = []
        self.services: list[Iterator[None]] = []
        self.probes: list[int] = []
        self.looks: list[Report] = []
        self.reports: list[Report] = []
        #: Requests of cinder-api for groups from a source, and those whose volumes have no rows yet.
        self.groups: list[Iterator[None]] = []
        self.promised = 0
        self.refused = 0
        self.database.run(probes.observe, BACKEND, "nova", "cinder")

    # What users and operators do

    def create(self) -> None:
        row = Row(self._id(), self.chance.choice((2, 3, 5, 8)))
        self.rows[row.id] = row
        self.requests.append(Create(row.id))
        if self.chance.random() < 0.15:  # the message is delivered twice
            self.requests.append(Create(row.id))

    def extend(self) -> None:
        row = self._any("available")
        if row is not None:
            row.status, row.new_size = "extending", row.size_gb + self.chance.choice((1, 3, 6))
            self.schedulers.append(self._schedule_extend(row))

    def delete(self) -> None:
        row = self._any("available", "error")
        if row is None:
            return
        if row.pool is None:
            del self.rows[row.id]
        else:
            row.status = "deleting"
            self.commands.append(Command("delete", row.id, row.pool, row.size_gb))

    def create_group(self) -> None:
        """Copy a group of volumes."""
        self.groups.append(self._copy_group())

    def _copy_group(self) -> Iterator[None]:
        """Ask a scheduler for the sum of the sizes, then make all rows, then give them hosts."""
        group, pool = self._id(), self.chance.choice(POOLS)
        sizes = [self.chance.choice((1, 2, 3)) for _ in range(self.chance.choice((1, 2, 3)))]
        whole = Row(group, sum(sizes))
        booking = self._booking(pool, whole, observed_claims.GROUP, whole.size_gb, whole.size_gb)
        try:
            if booking is None:
                raise bookings.PoolsChanged(())
            key = observed_claims.key(group, observed_claims.GROUP, str(self.chance.random()))
            placing.claim(self.database, booking, key)
        except bookings.PoolsChanged:
            self.refused += 1
            return
        self.promised += 1
        yield
        self.promised -= 1
        rows = [Row(self._id(), size, group_id=group) for size in sizes]
        for row in rows:
            self.rows[row.id] = row
            yield
        for row in rows:
            row.pool = pool
            yield
        self.commands += [Command("copy", row.id, pool, row.size_gb) for row in rows]

    def group_turn(self) -> None:
        """Let cinder-api do a step."""
        _turn(self.groups, self.chance, kill=0.0)

    def _id(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def _any(self, *statuses: str) -> Row | None:
        rows = [row for row in self.rows.values() if row.status in statuses]
        return self.chance.choice(rows) if rows else None

    # The schedulers

    def receive_request(self) -> None:
        if self.requests:
            request = self.requests.pop(self.chance.randrange(len(self.requests)))
            self.schedulers.append(self._schedule(request))

    def scheduler_turn(self) -> None:
        """Let a scheduler do a step, or kill it there."""
        _turn(self.schedulers, self.chance, kill=0.03)

    def _schedule(self, request: Create) -> Iterator[None]:
        row = self.rows.get(request.volume_id)
        if row is None:
            return
        pools = [pool for pool in POOLS if pool not in request.failed]
        self.chance.shuffle(pools)
        for pool in pools:
            key = observed_claims.key(row.id, claim_verbs.CREATE, str(request.attempt))
            yield
            booking = self._booking(pool, row, claim_verbs.CREATE, row.size_gb, row.size_gb)
            if booking is None:
                continue
            try:
                placing.claim(self.database, booking, key)
            except bookings.PoolsChanged:
                continue
            except observed_claims.Repeated:
                return
            yield
            if not self._take(row, pool):
                self.database.run(observed_claims.drop, booking.id)
                return
            yield
            try:
                placing.confirm_sent(self.database, booking)
            except placing.Superseded:
                if row.pool == pool and row.status == "creating":
                    row.pool = None
                return
            yield
            self.commands.append(Command("create", row.id, pool, row.size_gb, request.attempt, request.failed | {pool}))
            return
        self.refused += 1
        if row.status == "creating" and row.pool is None:
            row.status = "error"

    def _take(self, row: Row, pool: str) -> bool:
        if row.status != "creating" or row.pool is not None or row.id not in self.rows:
            return False
        row.pool = pool
        return True

    def _schedule_extend(self, row: Row) -> Iterator[None]:
        yield
        assert row.pool is not None
        booking = self._booking(row.pool, row, claim_verbs.EXTEND, row.new_size - row.size_gb, row.new_size)
        key = observed_claims.key(row.id, claim_verbs.EXTEND, str(self.chance.random()))
        try:
            if booking is None:
                raise bookings.PoolsChanged(())
            placing.claim(self.database, booking, key)
        except bookings.PoolsChanged:
            self.refused += 1
            row.status = "available"
            return
        yield
        try:
            placing.confirm_sent(self.database, booking)
        except placing.Superseded:
            row.status = "available"
            return
        yield
        self.commands.append(Command("extend", row.id, row.pool, row.new_size))

    def _booking(self, pool: str, row: Row, verb: str, size: int, target: int) -> bookings.Booking | None:
        with self.database.reading() as session:
            found = session.scalar(sa.select(models.Pool).where(models.Pool.name == pool, models.Pool.present))
            if found is None:
                return None
            return bookings.Booking(
                id=self._id(),
                request_id="req",
                volume_id=row.id,
                verb=verb,
                pool_id=found.id,
                pool_name=pool,
                backend_id=found.backend_id,
                generation=int(found.generation),
                size_gb=size,
                physical_gb=0,
                target_size_gb=target,
                provisioning=Provisioning.THIN,
            )

    def poll(self) -> None:
        """Begin a poll of the rows; other things may happen between its reads and its writes."""
        self.schedulers.append(self._poll(complete=self.chance.random() < 0.3))

    def _poll(self, complete: bool) -> Iterator[None]:
        # cinder-api makes the rows of a group sooner than its claim is given up.
        short = self.chance.random() < 0.5 and not self.promised
        with self.database.reading() as session:
            ids = {claim.volume_id for claim in observed_claims.open_claims(session)}
            if complete:
                ids |= observed_claims.volumes(session) | set(self.rows)
            claims = observed_claims.open_claims(session, ids)
        yield
        rows = [replace(row) for row in self.rows.values() if row.id in ids or row.group_id in ids]
        yield
        seen = claim_ends.judge(claims, rows, lease=0.0 if short else 1e9)
        self.database.run(observed_claims.settle, seen.ends, seen.unclaimed)

    def probe(self) -> None:
        with self.database.reading() as session:
            if BACKEND not in probes.due(session, 0.0):
                return
        probe = self.database.run(probes.next_probe, BACKEND, 0.0)
        if probe is not None:
            self.probes.append(probe.number)

    def receive_report(self) -> None:
        """Let any report arrive at a scheduler; some arrive again later."""
        if not self.reports:
            return
        report = self.reports.pop(self.chance.randrange(len(self.reports)))
        if self.chance.random() < 0.2:
            self.reports.append(report)
        if report.number is None:
            return
        figures = [
            reports.PoolFigures(
                id=None,
                name=pool,
                total_gb=TOTAL,
                free_gb=TOTAL,
                provisioned_gb=provisioned,
                ratio=1.0,
                thin_limit_gb=TOTAL,
                physical_limit_gb=None,
                storage_id=None,
                storage_free_gb=None,
                changes_decisions=False,
                stats={},
            )
            for pool, provisioned in report.figures.items()
        ]
        self.database.run(
            probes.apply, probes.ProbedReport(probe=probes.Probe(BACKEND, 1, report.number), figures=figures)
        )

    # The volume service

    def look(self) -> None:
        """Begin a look: for a probe that has arrived, or a periodic one."""
        if self.probes and self.chance.random() < 0.7:
            number: int | None = self.probes.pop(self.chance.randrange(len(self.probes)))
        else:
            number = None
        self.looks.append(Report(number, {pool: sum(files.values()) for pool, files in self.storage.items()}))

    def report(self) -> None:
        """End a look, which may have taken long, and send its report."""
        if self.looks:
            self.reports.append(self.looks.pop(self.chance.randrange(len(self.looks))))

    def receive_command(self) -> None:
        for index, command in enumerate(self.commands):
            if self.chance.random() < 0.6 and not any(
                other.volume_id == command.volume_id for other in self.commands[:index]
            ):
                self.services.append(self._execute(self.commands.pop(index)))
                return

    def service_turn(self) -> None:
        _turn(self.services, self.chance, kill=0.0)

    def kill_service(self) -> None:
        """Kill the volume service in the midst of its work. After its restart these volumes are in error."""
        hosted = {"creating": "error", "extending": "error_extending"}
        if self.services:
            self.services.clear()
            self.probes = [each for each in self.probes if self.chance.random() < 0.5]
            for row in self.rows.values():
                if row.pool is not None and self.chance.random() < 0.7:
                    row.status = hosted.get(row.status, row.status)
                    if row.status == "deleting":
                        self.commands.append(Command("delete", row.id, row.pool, row.size_gb))

    def _execute(self, command: Command) -> Iterator[None]:
        files = self.storage[command.pool]
        yield
        if command.verb == "delete":
            files.pop(command.volume_id, None)
            yield
            self.rows.pop(command.volume_id, None)
            return
        row = self.rows.get(command.volume_id)
        if row is None:
            return
        failed = self.chance.random() < 0.15
        if not failed or self.chance.random() < 0.3:
            files[command.volume_id] = command.size_gb
        yield
        if failed and command.verb == "create" and row.pool == command.pool:
            row.pool = None
            if command.attempt < 3:
                row.status = "creating"
                self.requests.append(Create(row.id, command.attempt + 1, command.failed))
            else:
                row.status = "error"
            yield
            files.pop(command.volume_id, None)
        elif failed:
            row.status = {"extend": "error_extending", "copy": "error"}.get(command.verb, row.status)
        elif command.verb == "extend":
            row.size_gb, row.status = command.size_gb, "available"
        else:
            row.status = "available"

    # Checks

    def check(self) -> None:
        """Assert that no pool holds more than its size."""
        for pool, files in self.storage.items():
            assert sum(files.values()) <= TOTAL, (pool, files)

    def play(self, turns: int) -> None:
        """Let things happen in any order."""
        happenings: list[tuple[Callable[[], None], int]] = [
            (self.create, 3),
            (self.extend, 2),
            (self.delete, 2),
            (self.create_group, 1),
            (self.group_turn, 6),
            (self.receive_request, 6),
            (self.scheduler_turn, 30),
            (self.poll, 4),
            (self.probe, 5),
            (self.look, 5),
            (self.report, 5),
            (self.receive_report, 6),
            (self.receive_command, 10),
            (self.service_turn, 20),
            (self.kill_service, 4),
        ]
        kinds, weights = zip(*happenings, strict=True)
        self.settle(1)  # the first report
        for _ in range(turns):
            self.chance.choices(kinds, weights)[0]()
            self.check()

    def settle(self, rounds: int = 40) -> None:
        """Let all that is under way end, without faults."""
        for _ in range(rounds):
            self.poll()
            for _ in range(12):
                for turns in (self.schedulers, self.groups, self.services):
                    while turns:
                        _turn(turns, self.chance, kill=0.0)
                self.receive_request()
                self.receive_command()
            self.probe()
            while self.probes:
                self.look()
            while self.looks:
                self.report()
            for _ in range(20):
                self.receive_report()
            self.check()


def _turn(turns: list[Iterator[None]], chance: random.Random, kill: float) -> None:
    if not turns:
        return
    index = chance.randrange(len(turns))
    if chance.random() < kill:
        turns.pop(index)
        return
    with contextlib.suppress(StopIteration):
        next(turns[index])
        return
    turns.pop(index)
