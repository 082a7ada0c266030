# SPDX-License-Identifier: Apache-2.0
"""The ledger under random interleavings: operations, reports, losses, repetitions and restarts in any order.

After every step the counters must equal what the claims say, and never less may be counted than is on the storage or
promised. At rest the ledger and the storage must agree.
"""

from hypothesis import HealthCheck
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine
from hypothesis.stateful import initialize
from hypothesis.stateful import invariant
from hypothesis.stateful import precondition
from hypothesis.stateful import rule

from tests.unit.scheduler.world import StoragePool
from tests.unit.scheduler.world import World
from tests.unit.scheduler.world import doubled
from tonnage.capacity.arithmetic import Calculation
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.messages import Outcome
from tonnage.scheduler.placement import Retry


class LedgerMachine(RuleBasedStateMachine):
    """What may happen, in any order."""

    @initialize(
        calculation=st.sampled_from(Calculation),
        ratios=st.lists(st.sampled_from([1.0, 2.0]), min_size=1, max_size=2),
        kinds=st.sampled_from([(True, False), (False, True), (True, True)]),
    )
    def begin(self, calculation: Calculation, ratios: list[float], kinds: tuple[bool, bool]) -> None:
        pools = {f"p{i}": StoragePool(20, ratio, *kinds) for i, ratio in enumerate(ratios)}
        self.world = World(pools, calculation)
        self.world.start_agent()
        self.world.report()
        self.messages: list[Outcome | BackendReport] = []

    @rule(sizes=st.lists(st.integers(1, 15), min_size=1, max_size=3))
    def create(self, sizes: list[int]) -> None:
        self.world.create(*sizes)

    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        volumes = self.world.rows("SELECT id, size_gb FROM volumes WHERE status = 'available' ORDER BY id")
        if volumes:
            volume_id, size = data.draw(st.sampled_from(volumes))
            self.world.extend(volume_id, size + data.draw(st.integers(1, 8)))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        volumes = self.world.rows("SELECT id FROM volumes WHERE status IN ('available', 'error') ORDER BY id")
        if volumes:
            self.world.delete(data.draw(st.sampled_from(volumes))[0])

    @rule(fails=st.sampled_from([False, False, True]), clean=st.booleans(), leaves=st.booleans())
    def work(self, fails: bool, clean: bool, leaves: bool) -> None:
        outcome = self.world.agent.work(fails, clean, leaves)
        if outcome is not None:
            self.messages.append(outcome)

    @rule()
    def look(self) -> None:
        self.messages.append(self.world.agent.look())

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), twice=st.booleans())
    def deliver(self, data: st.DataObject, twice: bool) -> None:
        message = self.messages.pop(data.draw(st.integers(0, len(self.messages) - 1)))
        self.world.deliver(message)
        if twice:
            self.world.deliver(doubled(message) if isinstance(message, Outcome) else message)

    @precondition(lambda self: self.messages)
    @rule()
    def lose(self) -> None:
        self.messages.pop(0)

    @rule(lossy=st.booleans())
    def bus(self, lossy: bool) -> None:
        self.world.lossy = lossy

    @rule()
    def place_again(self) -> None:
        self.world.place([Retry(volume_id) for volume_id in self.world.waiting])
        self.world.waiting.clear()

    @rule()
    def agent_dies(self) -> None:
        self.world.start_agent()

    @rule()
    def scheduler_dies(self) -> None:
        self.world.start_scheduler()

    @rule()
    def rest(self) -> None:
        """After all is delivered, what the ledger has is what is there."""
        self.world.lossy = False
        self.world.settle()
        on_storage = {
            volume_id: (size, name) for name, pool in self.world.pools.items() for volume_id, (size, _) in pool.volumes.items()
        }
        in_ledger = {
            row[0]: (row[1], row[2].rpartition("#")[2])
            for row in self.world.rows(
                "SELECT v.id, v.size_gb, p.name FROM volumes v JOIN pools p ON p.id = v.pool_id WHERE v.status = 'available'"
            )
        }
        for volume_id, (size, pool) in in_ledger.items():
            assert self.world.pools[pool].volumes[volume_id][0] == size
            assert on_storage[volume_id] == (size, pool) or volume_id in on_storage
        assert not self.world.rows("SELECT id FROM volumes WHERE status IN ('creating', 'deleting', 'extending')")
        assert self.world.rows("SELECT COALESCE(SUM(in_flight_gb), 0) FROM pools") == [(0,)]
        for name, pool in self.world.pools.items():
            sizes = self.world.rows(
                "SELECT COALESCE(SUM(v.size_gb), 0), MAX(p.allocated_capacity_gb) FROM pools p LEFT JOIN volumes v "
                f"ON p.id = v.pool_id WHERE p.name LIKE '%#{name}'"
            )[0]
            assert sizes[0] == sizes[1], pool

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
