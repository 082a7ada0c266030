# SPDX-License-Identifier: Apache-2.0
"""Any plan, and any interleaving of its steps with creates, extends, deletes, reports and failures.

At each moment no move takes a pool above a bound, or further above one that it is over already, not even if all copies
were written in full. In the end each plan has reached its goal or names the reason, and each volume is in one place.
"""

import contextlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import orm

from tests.unit.extensions.moves.execution import plan_checks
from tests.unit.extensions.moves.execution.plan_world import PlanWorld
from tests.unit.extensions.moves.execution.plan_world import pool as storage_pool
from tests.unit.ledger.records import new_id
from tests.unit.scheduler.model import admission, checks
from tests.unit.scheduler.model.storage import Fate
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool import backend_of
from tonnage.extensions.moves.records import plan_records, tables
from tonnage.rpc.messages import BackendReport, DeleteVolume, ExtendVolume

_PICK = st.integers(0, 1000)
#: Of each pool its GiB, its ratio, whether it is thin, its reserve in percent, and how many GiB others leave of it.
_POOLS = st.lists(
    st.tuples(
        st.integers(15, 40),
        st.sampled_from([2.0, 3.0, 1.0]),
        st.sampled_from([True, True, False]),
        st.sampled_from([0, 10]),
        st.sampled_from([6, 10, 40]),
    ),
    min_size=2,
    max_size=4,
)
_SIZES = st.lists(st.integers(1, 9), min_size=2, max_size=7)
#: GiB that others leave of a pool.
_LEFT = st.integers(0, 14)
_GOALS = st.sampled_from(["empty", "empty", "relieve", "balance", "fit"])

#: A plan: its goal, the place of its pool, and a number that the goal needs.
_PLANS = st.tuples(_GOALS, _PICK, st.integers(1, 80))

#: Rounds within which all plans have ended when nothing else happens, and the seconds between two of them.
_ROUNDS, _SECONDS = 60, 45


class Plans(RuleBasedStateMachine):
    """Plans in a world with two schedulers that may die."""

    world: PlanWorld

    @initialize(
        pools=_POOLS,
        sizes=_SIZES,
        calculation=st.sampled_from(Calculation),
        plan=_PLANS,
        later=st.none() | st.tuples(_PICK, _LEFT),
    )
    def begin(
        self,
        pools: list[tuple[int, float, bool, int, int]],
        sizes: list[int],
        calculation: Calculation,
        plan: tuple[str, int, int],
        later: tuple[int, int] | None,
    ) -> None:
        # Two backends, so that volumes move within a backend and between two.
        self.names = [f"h{number % 2}@b#p{number}" for number in range(len(pools))]
        self.world = PlanWorld(
            {
                name: storage_pool(total, ratio=ratio if thin else 1.0, thin=thin, reserved_percentage=reserved)
                for name, (total, ratio, thin, reserved, _) in zip(self.names, pools, strict=True)
            },
            calculation,
            schedulers=2,
        )
        self.world.start_agents()
        self.world.report_everything()
        self.world.place(self.world.schedulers[0], *(self.world.create_message(size) for size in sizes))
        self.world.report_everything()
        for name, (*_, left) in zip(self.names, pools, strict=True):
            self._write(name, left)
        self.world.report_everything()
        self._apply(*plan)
        if later is not None:
            self.others_write(*later, pick=0)

    def _write(self, pool: str, left: int) -> None:
        """Something else than volumes uses the storage of a pool until no more than so many GiB are free."""
        storage = self.world.pools[pool].storage
        storage.others_gb = max(0, storage.total_gb - (storage.used_gb - storage.others_gb) - left)

    def scheduler(self, pick: int) -> Any:
        return self.world.schedulers[pick % len(self.world.schedulers)]

    def volume(self, pick: int) -> tuple[str, int] | None:
        rows = self.world.rows("SELECT id, size_gb FROM volumes WHERE status = 'available' ORDER BY request_id, id")
        return rows[pick % len(rows)] if rows else None  # type: ignore[return-value]

    # Clients.

    @rule(size=st.integers(1, 12), pick=_PICK)
    def create(self, size: int, pick: int) -> None:
        self.world.place(self.scheduler(pick), self.world.create_message(size))

    @rule(volume=_PICK, growth=st.integers(1, 6), pick=_PICK)
    def extend(self, volume: int, growth: int, pick: int) -> None:
        if (chosen := self.volume(volume)) is not None:
            request_id = self.world.request_id()
            message = ExtendVolume(request_id=request_id, volume_id=chosen[0], new_size_gb=chosen[1] + growth)
            self.world.place(self.scheduler(pick), message)

    @rule(volume=_PICK, pick=_PICK)
    def delete(self, volume: int, pick: int) -> None:
        if (chosen := self.volume(volume)) is not None:
            message = DeleteVolume(request_id=self.world.request_id(), volume_id=chosen[0])
            scheduler = self.scheduler(pick)
            future = scheduler.thread.submit(scheduler.core.operations.delete, message)
            scheduler.thread.turn()
            assert isinstance(future.exception(), errors.TonnageError | None)

    @rule(pool=_PICK, left=st.integers(0, 12), pick=_PICK)
    def others_write(self, pool: int, left: int, pick: int) -> None:
        name = self.names[pool % len(self.names)]
        self._write(name, left)
        agent = self.world.agents[backend_of(name)]
        if agent is not None and agent.joined:
            self.world.report(agent)
            for letter in [letter for letter in self.world.bus if isinstance(letter.content, BackendReport)]:
                self.world.bus.remove(letter)
                self.world.deliver(letter, self.scheduler(pick))
        self.carry_on(pick)

    # Administrators.

    @rule(plan=_PLANS, moves=st.integers(1, 3), failures=st.sampled_from([1, 3, 1000]))
    def apply(self, plan: tuple[str, int, int], moves: int, failures: int) -> None:
        self._apply(*plan, moves=moves, failures=failures)

    def _apply(self, goal: str, pool: int, number: int, *, moves: int = 2, failures: int = 1000) -> None:
        # Most plans need volumes.
        used = sorted(set(self.world.places().values())) or self.names
        name = used[pool % len(used)]
        arguments: dict[str, Any] = {
            "empty": {"target": name},
            "relieve": {"pool": name, "below": number, "bound": "promised"},
            "balance": {"points": number % 20},
            "fit": {"size": 1 + number // 3},
        }[goal]
        limits = {"moves": moves, "moves_per_backend": 1 + moves % 3, "failures": failures}
        with contextlib.suppress(errors.Conflict):
            self.world.apply(goal, new_id(), limits, **arguments)

    @rule(plan=_PICK, action=st.sampled_from(["pause", "resume", "resume", "stop"]))
    def change(self, plan: int, action: str) -> None:
        rows = self.world.rows("SELECT id FROM move_plans ORDER BY created_at, id")
        if rows:
            with contextlib.suppress(errors.Conflict):
                self.world.change(action, rows[plan % len(rows)][0])

    @rule(pick=_PICK)
    def carry_on(self, pick: int) -> None:
        """The executor of a scheduler takes its next steps, by figures that it has just read."""
        scheduler = self.scheduler(pick)
        scheduler.run_periodic_tasks()
        with orm.Session(self.world.engine) as session:
            before = {row["name"]: row for row in admission.snapshot(session).values()}
        moving = self._moving()
        self.world.executor(scheduler).work()
        written: Counter[str] = Counter()
        for key, (target, size) in self._moving().items():
            if key not in moving:
                written[target] += size
        for name, size in written.items():
            room = admission.room(before[name], admission.reserved_percentage(before[name]))
            assert size <= room + 1e-6, (name, size, before[name])

    def _moving(self) -> dict[tuple[str, int], tuple[str, int]]:
        """Return the targets and sizes of the steps whose volumes are being copied."""
        rows = self.world.rows(
            "SELECT s.plan_id, s.number, s.target, s.size_gb FROM move_steps s JOIN claims c ON c.request_id = "
            "'move-' || s.plan_id || '-' || s.number WHERE s.state = 'moving' AND c.state = 'pending'"
        )
        return {(plan_id, number): (target, size) for plan_id, number, target, size in rows}

    # The rest of the world.

    @rule(letter=_PICK, pick=_PICK, again=st.booleans())
    def deliver(self, letter: int, pick: int, again: bool) -> None:
        """A message arrives, in any order."""
        if not self.world.bus:
            return
        chosen = self.world.bus.pop(letter % len(self.world.bus))
        host = next((host for host in self.world.schedulers if host.host == chosen.to), self.scheduler(pick))
        for _ in range(1 + again):
            self.world.deliver(chosen, host)

    @rule(agent=_PICK, fate=st.sampled_from([Fate(), Fate(), Fate(True, True), Fate(True, False, True), Fate(True)]))
    def work(self, agent: int, fate: Fate) -> None:
        """An agent ends an operation, well or not."""
        busy = [agent for agent in self.world.agents.values() if agent is not None and agent.workers.tasks]
        if busy:
            busy[agent % len(busy)].work(fate)

    @rule(agent=_PICK)
    def report(self, agent: int) -> None:
        joined = [agent for agent in self.world.agents.values() if agent is not None and agent.joined]
        if joined:
            self.world.report(joined[agent % len(joined)])

    @rule(pick=_PICK)
    def come_to_rest(self, pick: int) -> None:
        """Everything arrives, and plans go on."""
        self.world.report_everything()
        self.carry_on(pick)

    @rule(seconds=st.sampled_from([1, 5, 30]), pick=_PICK)
    def pass_time(self, seconds: int, pick: int) -> None:
        self.world.pass_time(seconds)
        self.scheduler(pick).run_periodic_tasks()

    @rule(pick=_PICK)
    def scheduler_dies(self, pick: int) -> None:
        self.world.start_scheduler(pick % len(self.world.schedulers))

    @rule(agent=_PICK)
    def agent_dies(self, agent: int) -> None:
        backend = sorted(self.world.agents)[agent % len(self.world.agents)]
        started = self.world.start_agent(backend)
        while not started.joined:
            self.world.join(started, self.world.schedulers[0])

    # What must hold.

    @invariant()
    def the_ledger_is_right(self) -> None:
        if hasattr(self, "world"):
            checks.check(self.world)
            plan_checks.check(self.world)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        for (plan_id,) in world.rows("SELECT id FROM move_plans WHERE state = 'paused'"):
            world.change("resume", plan_id)
        running = set(world.rows("SELECT id FROM move_plans WHERE state = 'running'"))
        world.report_everything()
        for number in range(_ROUNDS):
            for scheduler in world.schedulers[: 1 + number % 2]:
                scheduler.run_periodic_tasks()
                world.executor(scheduler).work()
            self.the_ledger_is_right()
            ended = running - set(world.rows("SELECT id FROM move_plans WHERE state = 'running'"))
            for (plan_id,) in ended:
                self._check_goal(plan_id)
            running -= ended
            if not world.rows("SELECT plan_id FROM move_plan_pools"):
                break
            world.report_everything()
            world.pass_time(_SECONDS)
            if number % 10 == 9:
                world.settle()
        plan_checks.check_ended(world)
        world.settle(least_rounds=0)
        checks.check_at_rest(world, (), (), {})

    def _check_goal(self, plan_id: str) -> None:
        """A plan that has just finished has reached its goal."""
        plan = self.world.schedulers[0].core.database.run(plan_records.get, plan_id)
        if plan.state != tables.FINISHED:
            return
        if plan.goal == "empty":
            plan_checks.check_empty(self.world, plan.arguments["target"])
        if plan.goal == "relieve":
            with orm.Session(self.world.engine) as session:
                [row] = [row for row in admission.snapshot(session).values() if row["name"] == plan.arguments["pool"]]
            total, here = row["total_capacity_gb"], self.world.pools[row["name"]]
            reserve = total * here.reserved_percentage // 100
            base = total if self.world.calculation is Calculation.CINDER and here.thin else total - reserve
            limit = base * (row["ratio"] if here.thin else 1.0)
            assert admission.promised(row) <= limit * plan.arguments["below"] / 100 + 1e-6, row


def _settings(examples: int, steps: int = 30) -> settings:
    return settings(max_examples=examples, stateful_step_count=steps, deadline=None)


# An example of 30 steps takes half a second of processor.
Plans.TestCase.settings = _settings(settings().max_examples // 12, 12)
TestPlans = pytest.mark.timeout(600)(Plans.TestCase)


@pytest.mark.heavy
@pytest.mark.parametrize("block", range(5))
def test_many_plans(block: int) -> None:
    run_state_machine_as_test(Plans, settings=_settings(100))
