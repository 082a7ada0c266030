# SPDX-License-Identifier: Apache-2.0
"""Random interleavings of everything that may happen in the world of the model.

After every step, and between the transactions of a step, the invariants of :mod:`.checks` must hold; at rest the
ledger and the storages must agree. The steps are drawn with weights rather than by hypothesis: the errors to catch need
several messages to cross, which uniform choices rarely bring about.
"""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import sqlalchemy as sa

from tests.unit.scheduler.model import checks
from tests.unit.scheduler.model.agent import Agent
from tests.unit.scheduler.model.scheduler import DOWN_TIME, LEASE, Scheduler
from tests.unit.scheduler.model.storage import Copy, Fate, Storage, StoragePool
from tests.unit.scheduler.model.turns import Killed
from tests.unit.scheduler.model.world import Letter, World
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.request import Provisioning
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.claims import request_keys
from tonnage.rpc.messages import (
    BackendState,
    CreateGroup,
    DeleteVolume,
    ExtendVolume,
    GroupAnswer,
    ManageVolume,
    MigrateVolume,
    MigrationPolicy,
    RetypeVolume,
    SetBackendState,
    UnmanageVolume,
)
from tonnage.scheduler.agents.report_handler import PART_SIZE
from tonnage.scheduler.requests.placement_requests import Move

#: Volume types, with what they ask for.
TYPES = {
    "plain": {},
    "thin": {"provisioning:type": "thin"},
    "thick": {"provisioning:type": "thick"},
    "fast": {"media": "ssd"},
    "growing": {"provisioning:extend_by_migration": "<is> True"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """How often things happen around transactions."""

    between: float = 0.03
    killed: float = 0.004
    unsure: float = 0.01


class Play:
    """One run: a world drawn by ``seed``, and what may happen in it, each with its weight."""

    def __init__(self, seed: int, engine: sa.Engine | None = None, chances: Chances | None = None) -> None:
        self.draw = random.Random(seed)
        self.chances = chances or Chances()
        self.depth = 1  # nothing happens before everything is there
        #: Copies, by pool and name: made by hand, let go of, and those that were to be taken over.
        self.by_hand: set[tuple[str, str]] = set()
        self.let_go: set[tuple[str, str]] = set()
        self.taken_over: set[tuple[str, str]] = set()
        #: Volumes that were to take over a copy, which failed, and were deleted. The copy may have their name by now.
        self.in_vain: set[str] = set()
        self.contents: dict[str, str] = {}
        #: Final answers: how to ask again at a scheduler, the answer, and the time.
        self.asked: list[tuple[Callable[[Scheduler], Any], Any, float]] = []
        pools = self._pools()
        part_size = (PART_SIZE, 1, 2)[seed % 3]
        self.world = World(pools, self.draw.choice(list(Calculation)), self.draw.randint(1, 3), engine, self, part_size)
        self.scheduler = self.world.schedulers[0]
        for name, specs in TYPES.items():
            self.world.schedulers[0].core.database.run(
                lambda session, name=name, specs=specs: volume_types.create(session, name, specs=specs)
            )
        for backend in self.world.agents:
            if self.draw.random() < 0.8:
                self._start(backend)
        self.depth = 0
        self.steps: dict[Callable[[], None], int] = {
            self.create: 10,
            self.group: 3,
            self.clone: 2,
            self.extend: 4,
            self.delete: 6,
            self.retype: 2,
            self.migrate: 4,
            self.manage: 2,
            self.unmanage: 1,
            self.set_state: 1,
            self.work: 18,
            self.look: 10,
            self.list: 2,
            self.deliver: 36,
            self.lose: 1,
            self.resend: 4,
            self.run_periodic_tasks: 4,
            self.turn: 4,
            self.join: 3,
            self.agent_dies: 1,
            self.stay_away: 1,
            self.scheduler_dies: 1,
            self.repeat: 4,
            self.write: 2,
            self.rest: 1,
        }

    def _pools(self) -> dict[str, StoragePool]:
        """Draw backends with pools of their own, and some that share a storage."""
        pools: dict[str, StoragePool] = {}
        draw = self.draw
        shared = [Storage(f"array{number}", draw.choice([40, 60, 80])) for number in range(draw.randint(0, 2))]
        for number in range(draw.randint(2, 3)):
            for place in range(draw.randint(1, 2)):
                storage = draw.choice(shared) if shared and draw.random() < 0.7 else Storage(None, 40)
                thin, thick = draw.choice([(True, False), (False, True), (True, True)])
                name = f"host{number}@b#p{place}"
                pools[name] = StoragePool(
                    storage,
                    draw.choice([1.0, 2.0]),
                    thin,
                    thick,
                    carved_gb=draw.choice([None, None, 30]) if storage.name else None,
                    reports_provisioned=draw.random() < 0.75,
                    reserved_percentage=draw.choice([0, 0, 10]),
                    media=draw.choice(["hdd", "ssd"]),
                )
                if draw.random() < 0.3:
                    pools[name].copies["by-hand"] = Copy(5, Provisioning.THICK, 5)
                    self.by_hand.add((name, "by-hand"))
        return pools

    def _start(self, backend: str) -> None:
        agent = self.world.start_agent(backend)
        while not agent.joined:
            self.world.join(agent, self.world.schedulers[0])
        self.world.report(agent)

    def go(self, steps: int) -> None:
        """Take that many steps, then come to rest."""
        with mock.patch("uuid.uuid4", self._uuid):
            for step in self.draw.choices(list(self.steps), list(self.steps.values()), k=steps):
                self.take(step)
                checks.check(self.world, self.by_hand)
            self.take(self.rest)

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.draw.getrandbits(128))

    def take(self, step: Callable[[], None]) -> None:
        """Take one step with a scheduler that is not in the middle of something, if there is one."""
        idle = [scheduler for scheduler in self.world.schedulers if not scheduler.busy]
        if not idle:
            return
        before, self.scheduler = self.scheduler, self.draw.choice(idle)
        mine = self.scheduler
        try:
            step()
        except Killed:
            self._replace(mine)
        finally:
            self.scheduler = before

    def _replace(self, scheduler: Scheduler) -> None:
        self.depth += 1
        try:
            for number, known in enumerate(self.world.schedulers):
                if known is scheduler:
                    self.world.start_scheduler(number)
        finally:
            self.depth -= 1

    # What happens around transactions.

    def before(self, scheduler: Scheduler) -> None:
        if self.depth:
            return
        chance = self.draw.random()
        if chance < self.chances.killed and scheduler is self.scheduler:
            raise Killed
        if chance < self.chances.between:
            self.meanwhile(scheduler)

    def meanwhile(self, scheduler: Scheduler | None = None) -> None:
        """Let others do something."""
        if self.depth:
            return
        busy = scheduler.thread.busy if scheduler is not None else False
        self.depth += 1
        if scheduler is not None:
            scheduler.thread.busy = True
        try:
            for _ in range(self.draw.randint(1, 3)):
                [step] = self.draw.choices(list(self.steps), list(self.steps.values()))
                if step not in (self.rest, self.scheduler_dies):
                    self.take(step)
                    checks.check(self.world, self.by_hand)
        finally:
            self.depth -= 1
            if scheduler is not None:
                scheduler.thread.busy = busy

    def after(self, scheduler: Scheduler) -> bool:
        if self.depth:
            return False
        checks.check(self.world, self.by_hand)
        chance = self.draw.random()
        if chance < self.chances.killed and scheduler is self.scheduler:
            raise Killed
        return chance > 1 - self.chances.unsure

    # Requests.

    def ask(self, *messages: Any) -> None:
        """Ask for several things at once, and see that the answers hold together."""
        answers = self.world.place(self.scheduler, *messages)
        for message, answer in zip(messages, answers, strict=True):
            self._note(lambda scheduler, message=message: self.world.place(scheduler, message)[0], answer)
            if isinstance(answer, GroupAnswer) and answer.refusal is None:
                self._look_at_group(message, answer)

    def _note(self, again: Callable[[Scheduler], Any], answer: Any) -> None:
        if not isinstance(answer, errors.TonnageError) or (
            isinstance(answer, errors.Conflict) and "try again" not in answer.message
        ):
            self.asked = [*self.asked[-20:], (again, answer, self.world.now)]

    def create(self) -> None:
        messages = [self._new() for _ in range(self.draw.randint(1, 3))]
        self.ask(*messages)

    def _new(self, **more: Any) -> Any:
        return self.world.create_message(
            self.draw.randint(1, 15), volume_type=self.draw.choice([None, None, *TYPES]), **more
        )

    def group(self) -> None:
        request_id = self.world.request_id()
        members = [self._new(request_id=request_id) for _ in range(self.draw.randint(2, 4))]
        hint = self.draw.choice([None, "same_host", "different_host"])
        if hint is not None:
            named = self.draw.choice(members[1:]).volume_id
            members[0] = self._new(request_id=request_id, hints={hint: [named]})
        self.ask(CreateGroup(request_id=request_id, volumes=members))

    def _look_at_group(self, message: CreateGroup, answer: GroupAnswer) -> None:
        """All of a group is there, and where its hints want it."""
        pools = {each.volume_id: each.pool or "" for each in answer.volumes}
        assert pools.keys() == {member.volume_id for member in message.volumes}
        assert all(pools.values())
        for member in message.volumes:
            for hint, same in (("same_host", True), ("different_host", False)):
                for other in member.hints.get(hint, []):
                    assert (backend_of(pools[member.volume_id]) == backend_of(pools[other])) is same, (message, answer)

    def clone(self) -> None:
        source = self._volume("status = 'available'")
        if source is not None:
            self.ask(self.world.create_message(source[1] + self.draw.choice([0, 0, 3]), source_volume_id=source[0]))

    def _unless_busy(self, condition: str) -> str:
        """Now and then ask for what is refused as something else is under way: it may be delivered again after that."""
        return "status IN ('extending', 'retyping', 'migrating')" if self.draw.random() < 0.15 else condition

    def extend(self) -> None:
        volume = self._volume(self._unless_busy("status = 'available'"))
        if volume is not None:
            new_size = volume[1] + self.draw.randint(1, 8)
            self.ask(ExtendVolume(request_id=self.world.request_id(), volume_id=volume[0], new_size_gb=new_size))

    def delete(self) -> None:
        deletable = "status IN ('available', 'error', 'error_extending', 'error_deleting', 'error_managing')"
        volume = self._volume(self._unless_busy(deletable))
        if volume is not None:
            if self.world.rows(f"SELECT id FROM volumes WHERE id = '{volume[0]}' AND status = 'error_managing'"):
                self.in_vain.add(volume[0])
            self._order("delete", DeleteVolume(request_id=self.world.request_id(), volume_id=volume[0]))

    def retype(self) -> None:
        volume = self._volume("status = 'available'")
        if volume is not None:
            policy = self.draw.choice(list(MigrationPolicy))
            message = RetypeVolume(
                request_id=self.world.request_id(),
                volume_id=volume[0],
                volume_type=self.draw.choice(list(TYPES)),
                migration_policy=policy,
            )
            self.ask(message)

    def migrate(self) -> None:
        volume = self._volume("status = 'available'")
        if volume is not None:
            places = [None, *self.world.pools, *self.world.agents]
            message = MigrateVolume(
                request_id=self.world.request_id(), volume_id=volume[0], destination=self.draw.choice(places)
            )
            self.ask(Move(message))

    def manage(self) -> None:
        """Take over what somebody has made by hand, or what was let go of."""
        known = {row[0] for row in self.world.rows("SELECT id FROM volumes")}
        loose = [
            (pool, name)
            for pool, storage_pool in self.world.pools.items()
            for name in storage_pool.copies
            if name not in known
        ]
        pool = self.draw.choice([place[0] for place in loose] or list(self.world.pools))
        reference = self.draw.choice([name for where, name in loose if where == pool] or ["nothing"])
        message = ManageVolume(
            request_id=self.world.request_id(),
            volume_id=str(uuid.uuid4()),
            pool=pool,
            reference=reference,
            project_id="demo",
        )
        if self._pending_there(pool, reference):
            return
        self.taken_over.add((pool, reference))
        self._order("manage", message)

    def _pending_there(self, pool: str, reference: str) -> bool:
        """Tell whether something is under way with a copy: nobody takes over what is being moved or purged."""
        return bool(self.world.rows(f"SELECT id FROM claims WHERE volume_id = '{reference}' AND state <> 'confirmed'"))

    def unmanage(self) -> None:
        volume = self._volume("status IN ('available', 'error_extending') AND pool_id IS NOT NULL")
        if volume is None:
            return
        pool = self._pool_of(volume[0])
        try:
            message = UnmanageVolume(request_id=self.world.request_id(), volume_id=volume[0])
            self._order("unmanage", message)
        finally:
            forgotten = not self.world.rows(f"SELECT id FROM volumes WHERE id = '{volume[0]}'")
            if forgotten and volume[0] in self.world.pools[pool].copies:
                self.let_go.add((pool, volume[0]))

    def set_state(self) -> None:
        backend = self.draw.choice(list(self.world.agents))
        state = self.draw.choice([BackendState.ENABLED, BackendState.ENABLED, *BackendState])
        message = SetBackendState(backend=backend, state=state)
        self._plainly(self.scheduler, self.scheduler.core.operations.set_backend_state, message)

    def repeat(self) -> None:
        """A request arrives once more, at any scheduler: the answer is the same, and nothing else happens."""
        # An older request has expired: the keys of refused ones are not kept much longer.
        since = self.world.now - request_keys.EXPIRY.total_seconds()
        asked = [(again, answer) for again, answer, at in self.asked if at >= since]
        if not asked:
            return
        refused = [each for each in asked if isinstance(each[1], errors.Conflict)]
        again, before = self.draw.choice(refused if refused and self.draw.random() < 0.5 else asked)
        answer = again(self.scheduler)
        assert type(answer) is type(before), (before, answer)
        assert str(answer) == str(before)

    def write(self) -> None:
        """A user writes to a volume that nothing is done with."""
        volume = self._volume("status = 'available'")
        if volume is None:
            return
        copy = self.world.pools[self._pool_of(volume[0])].copies[volume[0]]
        self.contents[volume[0]] = copy.content = self._uuid().hex

    def _pool_of(self, volume_id: str) -> str:
        [(pool,)] = self.world.rows(
            f"SELECT p.name FROM volumes v JOIN pools p ON p.id = v.pool_id WHERE v.id = '{volume_id}'"
        )
        return str(pool)

    def _volume(self, condition: str) -> tuple[str, int] | None:
        rows = self.world.rows(
            f"SELECT id, size_gb FROM volumes WHERE {condition} ORDER BY request_id, size_gb, status, id"
        )
        return self.draw.choice(rows) if rows else None  # type: ignore[return-value]

    def _order(self, verb: str, message: Any) -> None:
        def ask(scheduler: Scheduler) -> Any:
            return self._plainly(scheduler, getattr(scheduler.core.operations, verb), message)

        self._note(ask, ask(self.scheduler))

    def _plainly(self, scheduler: Scheduler, handler: Any, message: Any) -> Any:
        """Call a handler for one message; what a user may be told in the form of an error is a result too."""
        future = scheduler.thread.submit(handler, message)
        scheduler.thread.turn()
        error = future.exception()
        assert error is None or isinstance(error, errors.TonnageError)
        return error or future.result()

    # Agents.

    def _agent(self, joined: bool = True) -> Agent | None:
        agents = [
            agent
            for agent in self.world.agents.values()
            if agent is not None and agent.joined is joined and not agent.looking
        ]
        return self.draw.choice(agents) if agents else None

    def work(self) -> None:
        agents = [agent for agent in self.world.agents.values() if agent is not None and agent.workers.tasks]
        if agents:
            agent = self.draw.choice(agents)
            draw = self.draw
            fails = draw.random() < 0.25
            fate = Fate(fails, draw.random() < 0.5, draw.random() < 0.6, fails and draw.random() < 0.2)
            agent.work(fate, draw.randrange(len(agent.workers.tasks)))

    def look(self) -> None:
        agent = self._agent()
        if agent is None:
            return
        self.world.stamps_fail = self.draw.random() < 0.1
        agent.driver.looking = lambda: self._glance(agent)
        try:
            report = agent.look()
        finally:
            agent.driver.looking = _nothing
        if self.world.agents[agent.backend] is agent:
            self.world.bus += [Letter(report, scheduler.host) for scheduler in self.world.schedulers]

    def list(self) -> None:
        agent = self._agent()
        if agent is None:
            return
        agent.driver.looking = lambda: self._glance(agent)
        try:
            listing = agent.list()
        finally:
            agent.driver.looking = _nothing
        self.world.bus.append(Letter(listing))

    def _glance(self, agent: Agent) -> None:
        """Just before a driver looks, others go on; operations too, if the look has taken long."""
        if agent.looking and self.draw.random() < 0.3:
            if self.draw.random() < 0.5:
                agent.operations.resume()
            self.meanwhile()

    def join(self) -> None:
        agent = self._agent(joined=False)
        if agent is not None:
            self.world.join(agent, self.scheduler)
            return
        away = [backend for backend, agent in self.world.agents.items() if agent is None]
        if away:
            self.world.start_agent(self.draw.choice(away))

    def agent_dies(self) -> None:
        """An agent process ends; another one starts now, or some time later."""
        agent = self._agent()
        if agent is None:
            return
        self.world.agents[agent.backend] = None
        if self.draw.random() < 0.8:
            self.world.start_agent(agent.backend)

    def stay_away(self) -> None:
        """An agent, or the network before it, is away for so long that requests move on."""
        backend = self.draw.choice(list(self.world.agents))
        if self.draw.random() < 0.5 and self._agent() is not None:
            self.world.agents[backend] = None
        for _ in range(4):
            for other, agent in list(self.world.agents.items()):
                if other != backend and agent is not None and agent.joined and not agent.looking:
                    self.world.report(agent)
            for letter in [letter for letter in self.world.bus if getattr(letter.content, "backend", "") != backend]:
                host = next((one for one in self.world.schedulers if one.host == letter.to), None)
                if host is not None and not host.busy and letter in self.world.bus:
                    self.world.bus.remove(letter)
                    self.world.deliver(letter, host)
            self.world.pass_time((DOWN_TIME + LEASE) / 3)
            for scheduler in self.world.schedulers:
                if not scheduler.busy:
                    scheduler.run_periodic_tasks()

    # The bus, and schedulers.

    def deliver(self) -> None:
        """Messages arrive in any order, some twice, some once more a long time later."""
        if not self.world.bus:
            return
        letter = self.world.bus.pop(self.draw.randrange(len(self.world.bus)))
        self._arrive(letter)
        if self.draw.random() < 0.15:
            self._arrive(letter)
        if self.draw.random() < 0.15:
            self.world.bus.append(letter)

    def _arrive(self, letter: Letter) -> None:
        host = next((scheduler for scheduler in self.world.schedulers if scheduler.host == letter.to), None)
        if host is not None and host.busy:
            self.world.bus.append(letter)
            return
        scheduler = host or self.scheduler
        if scheduler.busy:
            return
        before, self.scheduler = self.scheduler, scheduler
        try:
            self.world.deliver(letter, scheduler, answer_lost=self.draw.random() < 0.1)
        except Killed:
            self._replace(scheduler)
        finally:
            self.scheduler = before

    def lose(self) -> None:
        for _ in range(self.draw.randint(1, 4)):
            if self.world.bus:
                self.world.bus.pop(self.draw.randrange(len(self.world.bus)))

    def resend(self) -> None:
        """What was not acknowledged is sent again."""
        agent = self._agent()
        if agent is not None:
            self.world.bus += [Letter(outcome) for outcome in agent.operations.unacknowledged()]

    def run_periodic_tasks(self) -> None:
        self.world.pass_time(self.draw.choice([5, LEASE]))
        self.scheduler.run_periodic_tasks()

    def turn(self) -> None:
        self.scheduler.thread.turn()

    def scheduler_dies(self) -> None:
        self._replace(self.scheduler)

    def rest(self) -> None:
        """When everything has been delivered, what the ledger has is what is there."""
        self.depth += 1
        try:
            self.world.settle()
            loose = self.by_hand | self.let_go
            left = {(pool, name) for pool, name in loose if name in self.world.pools[pool].copies}
            assert loose - left <= self.taken_over, "nobody has told us to delete that"
            left |= {
                (pool, name)
                for pool, storage_pool in self.world.pools.items()
                for name in self.in_vain.intersection(storage_pool.copies)
            }
            checks.check_at_rest(self.world, self.by_hand, left, self.contents)
            checks.check_drained(self.world)
        finally:
            self.depth -= 1


def _nothing() -> None: ...
