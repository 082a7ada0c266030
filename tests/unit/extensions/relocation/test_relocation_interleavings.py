# SPDX-License-Identifier: Apache-2.0
"""Any interleaving of two processes that carry a plan out with users, failures, kills and lost answers of Cinder."""

import random
from collections import Counter
from typing import Any

import pytest

from tests.unit.extensions.relocation.cloud_api import A, B, C, CloudApi
from tests.unit.extensions.relocation.test_relocation import Plans
from tonnage.capacity import errors
from tonnage.extensions.moves.execution.plan_executor import PlanExecutor
from tonnage.extensions.moves.records import plan_records
from tonnage.extensions.relocation.plan_choices import MOVER

#: Turns of a play.
_TURNS = 40


class Killed(BaseException):
    """A process ends before or after it has sent a request."""


class Play:
    """A cloud with a plan that empties pool A, and two processes. ``orders`` are those that Cinder has accepted."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.api = CloudApi({A: 100, B: 60, C: 60})
        for size in self.draw.sample(range(1, 20), 6):
            self.api.add(A, size)
        self.api.add(B, 5), self.api.add(C, 5)
        self.plans = Plans(self.api, failures=4)
        self.orders: Counter[str] = Counter()
        self.fate = "answered"
        self._answer = self.api.answer
        self.api.answer = self._answer_by_fate  # type: ignore[method-assign]
        self.plan_id = self.plans.apply("empty", target=A)
        self.executors: list[PlanExecutor] = [self.plans.new_process().executor() for _ in range(2)]

    def _answer_by_fate(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        if method != "POST":
            return self._answer(method, path, body)
        fate, self.fate = self.fate, "answered"
        if fate == "killed before":
            raise Killed
        status, content = self._answer(method, path, body)
        if status == 202:
            self.orders[path.split("/")[2]] += 1
        self.check()
        if fate == "killed after":
            raise Killed
        return (503, {"error": {"message": "lost"}}) if fate == "lost" else (status, content)

    def check(self) -> None:
        """Check that no pool is above its limit, with both copies of volumes that move; no move began twice."""
        used: Counter[str] = Counter()
        for volume_id, volume in self.api.volumes.items():
            used[volume["os-vol-host-attr:host"]] += volume["size"]
            if volume_id in self.api.targets:
                used[self.api.targets[volume_id]] += volume["size"]
        for pool, figures in self.api.pools.items():
            assert used[pool] <= figures["total"], used
        began = Counter(
            step.volume_id
            for step in self.plans.world.database.read(plan_records.steps, self.plan_id)
            if step.started_at is not None
        )
        assert all(count <= began[volume_id] for volume_id, count in self.orders.items()), "a move was ordered twice"

    def turn(self) -> None:
        """Let one thing happen."""
        others = ["older", "user", "refuse", "accept", "restart", "report"]
        action = self.draw.choice(["work"] * 6 + ["time"] * 3 + others)
        volume_id = self.draw.choice(sorted(self.api.volumes))
        if action == "work":
            number = self.draw.randrange(2)
            self.fate = self.draw.choice(["answered"] * 4 + ["killed before", "killed after", "lost"])
            try:
                self.executors[number].work()
            except Killed:
                self.executors[number] = self.plans.new_process().executor()
            except errors.Unavailable:
                pass
            self.fate = "answered"
        elif action == "time":
            self.api.pass_time(self.draw.choice([1, 65, 130]))
        elif action == "older":
            with self.plans.world.engine.begin() as connection:
                connection.exec_driver_sql("UPDATE move_steps SET started_at = datetime(started_at, '-20 seconds')")
        elif action == "user" and volume_id not in self.api.targets:
            fields = self.draw.choice([{"name": "other"}, {"group_id": "g"}, {"group_id": None}])
            self.api.change(volume_id, **fields)
        elif action == "refuse":
            self.api.refused.add(self.draw.choice([B, C]))
        elif action == "accept":
            self.api.refused.clear()
        elif action == "restart":
            # Cinder's scheduler forgets all reports.
            self.api.silent = set(self.api.services)
        elif action == "report" and self.api.silent:
            self.api.silent.remove(self.draw.choice(sorted(self.api.silent)))
        self.check()

    def end(self) -> str:
        """Let nothing go wrong any more, and return the state of the plan at the end."""
        self.api.refused.clear()
        self.api.silent.clear()
        for volume_id, volume in self.api.volumes.items():
            if volume["group_id"] and volume_id not in self.api.targets:
                self.api.change(volume_id, group_id=None)
        for _ in range(80):
            for executor in self.executors:
                executor.work()
                self.check()
            if not self.plans.world.database.read(plan_records.open_plans, MOVER):
                break
            self.api.pass_time(65)
            with self.plans.world.engine.begin() as connection:
                connection.exec_driver_sql("UPDATE move_steps SET started_at = datetime(started_at, '-31 seconds')")
                connection.exec_driver_sql("UPDATE move_plans SET next_plan_at = created_at")
        return self.plans.state(self.plan_id)[0]


def play(seed: int) -> str:
    """Play once, and return the state of the plan at the end."""
    current = Play(seed)
    for _ in range(_TURNS):
        current.turn()
    state = current.end()
    assert not current.api.targets
    if state == "finished":
        assert A not in current.api.places().values()
    return state


def test_no_move_is_ordered_twice_and_no_pool_passes_its_limit() -> None:
    states = Counter(play(seed) for seed in range(6))
    assert states.keys() <= {"finished", "failed"}, states
    assert states["finished"] >= 2, states


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_many_interleavings() -> None:
    states = Counter(play(seed) for seed in range(1000, 1150))
    assert states.keys() <= {"finished", "failed"}, states
    assert states["finished"] >= 50, states
