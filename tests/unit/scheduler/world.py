# SPDX-License-Identifier: Apache-2.0
"""A small world to run the scheduler in: a storage, an agent on it, and messages that are late, doubled or lost.

The scheduler's parts and its ledger are the real ones, called in one thread; the agent follows the rules for epochs and
ticks by the letter.
"""

import itertools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Self

import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.scheduler import ledgers
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger.claims import deletions
from tonnage.ledger.db import database
from tonnage.ledger.inventory import pending_claims
from tonnage.rpc.messages import (
    REPORT_STEP,
    Answer,
    BackendReport,
    Command,
    CreateVolume,
    ExtendVolume,
    Hello,
    ListedVolume,
    Listing,
    Outcome,
    Verb,
)
from tonnage.scheduler.agents.outcome_handler import OutcomeHandler
from tonnage.scheduler.agents.registration import Registration
from tonnage.scheduler.agents.report_handler import PART_SIZE, ReportHandler
from tonnage.scheduler.cache.cache_refresh import CacheRefresh
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.cluster.dispatcher import Dispatcher
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter
from tonnage.scheduler.decisions.placer import Placer
from tonnage.scheduler.decisions.rules_in_force import RulesInForce
from tonnage.scheduler.observers.audit_thread import AuditThread
from tonnage.scheduler.observers.driver_audit import DriverAudit
from tonnage.scheduler.requests.placement_requests import Move, Retry, Work
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain

BACKEND = "host@backend"
LEASE = 60.0


@dataclass
class StoragePool:
    """A pool as it really is: volumes with their sizes."""

    total: int
    ratio: float
    thin: bool
    thick: bool
    volumes: dict[str, tuple[int, Provisioning]] = field(default_factory=dict)
    reports_provisioned: bool = True
    reserved: int = 0
    storage_id: str | None = None

    @property
    def provisioned(self) -> int:
        return sum(size for size, _ in self.volumes.values())

    @property
    def thick_use(self) -> int:
        return sum(size for size, kind in self.volumes.values() if kind is Provisioning.THICK)


class Agent:
    """The agent process of one backend, with what it would send waiting in ``outbox``."""

    def __init__(self, pools: dict[str, StoragePool]) -> None:
        self.pools = pools
        self.nonce = str(uuid.uuid4())
        self.epoch = 0
        self.tick = 0
        self.seq = 0
        self.commands: list[Command] = []
        self.record: dict[str, Outcome] = {}

    def next_tick(self) -> int:
        self.tick += 1
        return self.tick

    def take(self, command: Command) -> Outcome | None:
        """Take a command as it arrives; a repeated one is answered from the record."""
        if command.epoch != self.epoch:
            return None
        if command.claim_id in self.record:
            return self.record[command.claim_id]
        if all(known.claim_id != command.claim_id for known in self.commands):
            self.commands.append(command)
        return None

    def work(self, fails: bool = False, clean: bool = False, leaves: bool = False) -> Outcome | None:
        """Run the oldest command to its end. A failure that is not ``clean`` may leave the volume behind."""
        if not self.commands:
            return None
        command = self.commands.pop(0)
        volumes = self.pools[command.pool].volumes
        size = float(volumes.get(command.volume_id, (0, None))[0])
        removes = command.verb in (Verb.DELETE, Verb.PURGE)
        if fails and not removes:
            if leaves and not clean and command.verb is Verb.CREATE:
                volumes[command.volume_id] = (command.size_gb, command.provisioning)
                size = command.size_gb
            outcome = self._outcome(command, False, size, clean and not (size and command.verb is Verb.CREATE))
        else:
            if removes:
                volumes.pop(command.volume_id, None)
            else:
                volumes[command.volume_id] = (command.size_gb, command.provisioning)
            outcome = self._outcome(command, True, 0.0 if removes else command.size_gb, False)
        self.record[command.claim_id] = outcome
        return outcome

    def look(self) -> BackendReport:
        """Take a report now; when it is delivered is another matter."""
        covers = self.next_tick()
        self.seq += REPORT_STEP
        return BackendReport(
            backend=BACKEND,
            epoch=self.epoch,
            seq=self.seq,
            covers=covers,
            pools=[*map(self._figures, self.pools)],
            # An agent knows which ones have been acknowledged; to repeat some more makes no difference.
            ended=list(self.record.values())[-2:],
        )

    def listing(self) -> Listing:
        volumes = [
            ListedVolume(volume_id=volume_id, pool=name, size_gb=size)
            for name, pool in self.pools.items()
            for volume_id, (size, _) in pool.volumes.items()
        ]
        in_hand = [command.claim_id for command in self.commands]
        return Listing(backend=BACKEND, epoch=self.epoch, tick=self.next_tick(), volumes=volumes, in_hand=in_hand)

    def _figures(self, name: str) -> dict[str, Any]:
        pool = self.pools[name]
        return {
            "pool_name": name,
            "total_capacity_gb": pool.total,
            "free_capacity_gb": pool.total - pool.thick_use,
            "provisioned_capacity_gb": pool.provisioned if pool.reports_provisioned else None,
            "max_over_subscription_ratio": pool.ratio,
            "reserved_percentage": pool.reserved,
            "thin_provisioning_support": pool.thin,
            "thick_provisioning_support": pool.thick,
            "storage_id": pool.storage_id,
        }

    def _outcome(self, command: Command, ok: bool, size: float, clean: bool) -> Outcome:
        return Outcome(
            backend=BACKEND,
            epoch=self.epoch,
            claim_id=command.claim_id,
            ok=ok,
            end_tick=self.next_tick(),
            size_gb=size,
            clean=clean,
            message="" if ok else "the storage failed",
        )


class World:
    """One scheduler, one backend, one ledger."""

    def __init__(
        self,
        pools: dict[str, StoragePool],
        calculation: Calculation = Calculation.CINDER,
        engine: sa.Engine | None = None,
        silence: float = 5.0,
    ) -> None:
        self.silence = silence
        self.engine = engine or ledgers.in_memory(self)
        ledger_schema.create(self.engine)
        self.database = database.Database(self.engine)
        self.calculation = calculation
        self.now = 0.0
        self.name = uuid.uuid4().hex[:8]
        self.numbers = itertools.count()
        self.pools = pools
        self.agent = Agent(pools)
        self.start_scheduler()

    # The scheduler's side of the wire: what it casts arrives at once or, if ``lossy``, never.
    lossy = False

    #: Most pools with new figures in one transaction.
    part_size = PART_SIZE

    def run(self, backend: str, command: Command) -> None:
        assert backend == BACKEND
        if not self.lossy:
            outcome = self.agent.take(command)
            if outcome is not None:
                self.resent.append(outcome)

    def report_now(self, backend: str) -> None:
        self.report_requests.append(backend)

    def list_now(self, backend: str) -> None:
        self.listing_requests.append(backend)

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None: ...

    def rejoin(self, backend: str) -> None: ...

    def start_scheduler(self) -> None:
        """Start a scheduler on the ledger as it is, forgetting all that an earlier one knew."""
        self.resent: list[Outcome] = []
        self.listing_requests: list[str] = []
        self.report_requests: list[str] = []
        self.waiting: list[str] = []
        self.parts: list[BackendReport] = []
        conf = SimpleNamespace(over_provisioning_calculation=self.calculation, capacity_weight_multiplier=1.0)
        self.hosts = HostManager(20.0, self.calculation, 60.0)
        self.dispatcher = Dispatcher(self, self.hosts, LEASE, lambda: self.now)
        self.filters = FilterChain([BackendStateFilter(60.0), CapacityFilter(conf)], self.calculation)
        self.weighers = WeigherChain([CapacityWeigher(conf)])
        self.cache_refresh = CacheRefresh(self.hosts, lambda: self.now)
        self.rules = RulesInForce(Rules(self.filters, self.weighers, self.calculation))
        self.placer = Placer(self.database, self.cache_refresh, self.rules, self.dispatcher)
        self.audit = AuditThread(DriverAudit(self.database), self, lambda: self.now)
        self.registration = Registration(
            self.database, self.cache_refresh, self.dispatcher, self, self.audit, self.silence
        )
        self.outcome_handler = OutcomeHandler(
            self.database, self.hosts, self.registration, self.dispatcher, self, max_attempts=3
        )
        self.report_handler = ReportHandler(
            self.database,
            self.cache_refresh,
            self.registration,
            self.dispatcher,
            self.outcome_handler,
            lambda: self.now,
            self.parts.append,
            self.audit,
            part_size=self.part_size,
        )
        self.refresh()

    def refresh(self) -> None:
        """Bring the scheduler's cache up to the ledger."""
        with self.database.reading() as session:
            self.cache_refresh.refresh(session)

    def place_later(self, work: Retry | Move) -> None:
        assert isinstance(work, Retry)
        self.waiting.append(work.volume_id)

    def start_agent(self) -> None:
        """Start an agent process on the storage as it is: hello, listing."""
        self.agent = Agent(self.pools)
        hello = Hello(
            backend=BACKEND,
            nonce=self.agent.nonce,
            availability_zone="nova",
            driver="memory",
        )
        welcome = self.registration.hellos([hello])[0]
        assert not isinstance(welcome, Exception)
        self.agent.epoch = welcome.epoch
        self.registration.listings([self.agent.listing()])

    def started(self) -> Self:
        """Start the agent and let it report; return this world."""
        self.start_agent()
        self.report()
        return self

    def place(self, work: list[Work]) -> list[Answer | Exception]:
        return self.placer.place(work)

    def create(self, *sizes: int) -> list[Answer | Exception]:
        """Ask for volumes of these sizes in one batch."""
        return self.place([self.create_message(size) for size in sizes])

    def made(self, size: int) -> str:
        """Ask for a volume of that size and let everything come to rest; return the volume's id."""
        [answer] = self.create(size)
        assert isinstance(answer, Answer)
        self.settle()
        return answer.volume_id

    def request_id(self) -> str:
        return f"req-{self.name}-{next(self.numbers)}"

    def create_message(self, size: int) -> CreateVolume:
        return CreateVolume(request_id=self.request_id(), volume_id=str(uuid.uuid4()), size_gb=size, project_id="demo")

    def extend(self, volume_id: str, new_size: int) -> Answer | Exception:
        message = ExtendVolume(request_id=self.request_id(), volume_id=volume_id, new_size_gb=new_size)
        return self.place([message])[0]

    def delete(self, volume_id: str) -> None:
        [deletion] = self.database.run(deletions.begin, [deletions.Order(volume_id, self.request_id())])
        if isinstance(deletion, Exception):
            raise deletion
        if deletion.order is not None:
            self.dispatcher.send(deletion.order)

    def deliver(self, *messages: Outcome | BackendReport) -> None:
        for message in messages:
            if isinstance(message, Outcome):
                self.outcome_handler.outcomes([message])
            else:
                self.report_handler.reports([message])
                self.deliver_parts()

    def deliver_parts(self) -> None:
        """Apply what remains of the reports that were applied in part."""
        while self.parts:
            self.report_handler.reports([self.parts.pop(0)])

    def report(self) -> None:
        self.deliver(self.agent.look())

    def settle(self) -> None:
        """Let everything come to rest: resend, work, confirm, place again, report, until nothing is left to do."""
        for _ in range(50):
            pending, unplaced = self.sweep()
            if not pending and not unplaced and not self.agent.commands:
                break
            self.deliver(*self.resent)
            self.resent.clear()
            while (outcome := self.agent.work()) is not None:
                self.deliver(outcome)
            self.waiting.clear()
            self.place([Retry(volume_id) for volume_id in unplaced])
        else:
            raise AssertionError("the world does not come to rest")
        self.report()

    def sweep(self) -> tuple[list[pending_claims.PendingClaim], list[str]]:
        """Let a lease pass and have the scheduler look for claims that nobody works on."""
        self.now += LEASE
        for backend in self.hosts.backends():
            backend.last_seen = self.now
        self.hosts.update_statuses(self.now)
        with self.database.reading() as session:
            pending, unplaced = pending_claims.load(session), pending_claims.unplaced_volumes(session)
        self.dispatcher.catch_up(pending)
        return pending, unplaced

    def pass_time(self, seconds: float) -> None:
        """Let time pass for the scheduler and, as far as reports are concerned, in the ledger."""
        self.now += seconds
        columns = {"backends": ["last_report_at"], "pools": ["unheard_at", "figures_at"]}
        with self.engine.begin() as connection:
            for table, names in columns.items():
                for name in names:
                    earlier = f"strftime('%Y-%m-%d %H:%M:%f', {name}, '-{seconds} seconds')"
                    connection.execute(sa.text(f"UPDATE {table} SET {name} = {earlier}"))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Read the ledger with plain SQL."""
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement))]

    def check(self) -> None:
        """Check the invariants of the ledger, from the outside."""
        for name, allocated, in_flight, physical, provisioned, pool_id in self.rows(
            "SELECT name, allocated_capacity_gb, in_flight_gb, in_flight_physical_gb, provisioned_capacity_gb, id "
            "FROM pools"
        ):
            claims = self.rows(
                f"SELECT size_gb, physical_gb, state, contained, volume_id, verb FROM claims WHERE pool_id = {pool_id}"
            )
            assert allocated == sum(c[0] for c in claims if c[2] in ("pending", "confirmed")), name
            assert in_flight == sum(c[0] for c in claims if not c[3]), name
            assert physical == sum(c[1] for c in claims if not c[3]), name
            assert min(allocated, in_flight, physical) >= 0
            # Never less is counted than is there or has been promised.
            pool = self.pools[name.rpartition("#")[2]]
            promised = 0
            by_volume: dict[str, int] = {}
            # A volume that is being deleted may be gone already: nothing is promised of it.
            leaving = {claim[4] for claim in claims if claim[5] == "delete"}
            for size, _, state, _, volume_id, _ in claims:
                if state != "released" and volume_id not in leaving:
                    by_volume[volume_id] = by_volume.get(volume_id, 0) + size
            for volume_id in by_volume.keys() | pool.volumes.keys():
                promised += max(by_volume.get(volume_id, 0), pool.volumes.get(volume_id, (0, None))[0])
            if pool.reports_provisioned:
                assert provisioned + in_flight >= promised, (name, provisioned, in_flight, promised)
            row = self.hosts.table.get(name)
            if row is not None:
                assert (row.allocated, row.claimed, row.claimed_physical) == (allocated, in_flight, physical)
        per_backend = self.rows("SELECT allocated_capacity_gb FROM backends")
        per_pool = self.rows("SELECT COALESCE(SUM(allocated_capacity_gb), 0) FROM pools")
        assert sum(row[0] for row in per_backend) == per_pool[0][0]


def doubled(outcome: Outcome) -> Outcome:
    """Return an equal message, as a bus that delivers twice would."""
    return replace(outcome)
