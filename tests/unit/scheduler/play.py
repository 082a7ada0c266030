# SPDX-License-Identifier: Apache-2.0
"""Random interleavings of operations, reports, losses, repetitions and restarts, in the small world of :mod:`.world`.

After every step the counters must equal what the claims say, and never less may be counted than is on the storage or
promised. At rest the ledger and the storage must agree. The steps are drawn with weights rather than by hypothesis: the
errors to catch need several messages to cross, which uniform choices rarely bring about.
"""

import random
from collections.abc import Callable

import sqlalchemy as sa

from tests.unit.scheduler.world import StoragePool
from tests.unit.scheduler.world import World
from tests.unit.scheduler.world import doubled
from tonnage.capacity.arithmetic import Calculation
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.messages import Outcome
from tonnage.scheduler.resolution import Retry


class Play:
    """One run: what may happen, each with its weight."""

    def __init__(self, seed: int, engine: sa.Engine | None = None) -> None:
        self.draw = random.Random(seed)
        thin, thick = self.draw.choice([(True, False), (False, True), (True, True)])
        count = self.draw.randint(1, 2)
        pools = {
            f"p{number}": StoragePool(
                40, self.draw.choice([1.0, 2.0]), thin, thick, reports_provisioned=self.draw.random() < 0.8
            )
            for number in range(count)
        }
        self.world = World(pools, self.draw.choice(list(Calculation)), engine)
        self.world.start_agent()
        self.world.report()
        self.messages: list[Outcome | BackendReport] = []
        self.steps: dict[Callable[[], None], int] = {
            self.create: 10,
            self.extend: 4,
            self.delete: 6,
            self.work: 16,
            self.look: 8,
            self.deliver: 24,
            self.lose: 1,
            self.resend: 4,
            self.place_again: 4,
            self.agent_dies: 1,
            self.scheduler_dies: 1,
            self.rest: 2,
        }

    def go(self, steps: int) -> None:
        for step in self.draw.choices(list(self.steps), list(self.steps.values()), k=steps):
            step()
            self.world.check()
        self.rest()

    def create(self) -> None:
        self.world.create(*[self.draw.randint(1, 15) for _ in range(self.draw.randint(1, 3))])

    def extend(self) -> None:
        volumes = self.world.rows("SELECT id, size_gb FROM volumes WHERE status = 'available' ORDER BY created_at, id")
        if volumes:
            volume_id, size = self.draw.choice(volumes)
            self.world.extend(volume_id, size + self.draw.randint(1, 8))

    def delete(self) -> None:
        volumes = self.world.rows(
            "SELECT id FROM volumes WHERE status IN ('available', 'error', 'error_extending') ORDER BY created_at, id"
        )
        if volumes:
            self.world.delete(self.draw.choice(volumes)[0])

    def work(self) -> None:
        fails, clean, leaves = self.draw.random() < 0.25, self.draw.random() < 0.5, self.draw.random() < 0.7
        outcome = self.world.agent.work(fails, clean, leaves)
        if outcome is not None:
            self.messages.append(outcome)

    def look(self) -> None:
        self.messages.append(self.world.agent.look())

    def deliver(self) -> None:
        if not self.messages:
            return
        message = self.messages.pop(self.draw.randrange(len(self.messages)))
        self.world.deliver(message)
        if self.draw.random() < 0.2:
            self.world.deliver(doubled(message) if isinstance(message, Outcome) else message)
        if self.draw.random() < 0.2:
            # The bus keeps a copy that turns up much later.
            self.messages.append(message)

    def lose(self) -> None:
        if self.messages:
            self.messages.pop(0)

    def resend(self) -> None:
        """A lease passes, perhaps with the bus away."""
        self.world.lossy = self.draw.random() < 0.2
        self.world.sweep()
        self.world.deliver(*self.world.resent)
        self.world.resent.clear()

    def place_again(self) -> None:
        waiting, self.world.waiting = self.world.waiting, []
        self.world.place([Retry(volume_id) for volume_id in waiting])

    def agent_dies(self) -> None:
        self.world.start_agent()

    def scheduler_dies(self) -> None:
        self.world.start_scheduler()

    def rest(self) -> None:
        """When everything has been delivered, what the ledger has is what is there."""
        world = self.world
        world.lossy = False
        world.settle()
        for volume_id, size, pool in world.rows(
            "SELECT v.id, v.size_gb, p.name FROM volumes v JOIN pools p ON p.id = v.pool_id "
            "WHERE v.status = 'available'"
        ):
            assert world.pools[pool.rpartition("#")[2]].volumes[volume_id][0] == size
        assert not world.rows("SELECT id, status FROM volumes WHERE status IN ('creating', 'deleting', 'extending')")
        assert world.rows("SELECT SUM(in_flight_gb), SUM(in_flight_physical_gb) FROM pools") == [(0, 0)]
        for pool, allocated, held in world.rows(
            "SELECT p.name, p.allocated_capacity_gb, (SELECT COALESCE(SUM(v.size_gb), 0) FROM volumes v "
            "WHERE v.pool_id = p.id) FROM pools p"
        ):
            assert allocated == held, pool
        world.check()
