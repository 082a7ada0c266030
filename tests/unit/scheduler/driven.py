# SPDX-License-Identifier: Apache-2.0
"""The small world on a real driver: what it reports and lists goes to the real scheduler, ledger and auditor."""

import random
from collections.abc import Callable
from typing import Any

from tests.unit.scheduler import world
from tonnage.agent import execution
from tonnage.capacity import errors
from tonnage.drivers.base import Driver
from tonnage.rpc import versions
from tonnage.rpc.messages import Answer
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.messages import Hello
from tonnage.rpc.messages import ListedVolume
from tonnage.rpc.messages import Listing
from tonnage.rpc.messages import Outcome

Report = list[dict[str, Any]]
Lie = Callable[[Report], object]


class DriverAgent(world.Agent):
    """An agent process that runs a driver; ``lie`` changes what it reports."""

    def __init__(self, driver: Driver, lie: Lie | None) -> None:
        super().__init__({})
        self._driver = driver
        self._lie = lie

    def work(self, fails: bool = False, clean: bool = False, leaves: bool = False) -> Outcome | None:
        """Run the oldest command to its end."""
        if not self.commands:
            return None
        command = self.commands.pop(0)
        ended = execution.execute(self._driver, command)
        outcome = Outcome(
            backend=world.BACKEND,
            epoch=self.epoch,
            claim_id=command.claim_id,
            ok=ended.ok,
            end_tick=self.next_tick(),
            size_gb=ended.size_gb,
            clean=ended.clean,
            message=ended.message,
        )
        self.record[command.claim_id] = outcome
        return outcome

    def look(self) -> BackendReport:
        """Take a report now."""
        covers = self.next_tick()
        self.seq += 1
        pools: Report = [dict(pool) for pool in self._driver.report()]
        if self._lie is not None:
            self._lie(pools)
        return BackendReport(
            backend=world.BACKEND,
            epoch=self.epoch,
            seq=self.seq,
            covers=covers,
            pools=pools,
            supports_auto_ratio=self._driver.supports_auto_ratio,
        )

    def listing(self) -> Listing:
        """List all volumes now."""
        return Listing(
            backend=world.BACKEND,
            epoch=self.epoch,
            tick=self.next_tick(),
            volumes=[
                ListedVolume(volume_id=stored.id, pool=stored.pool, size_gb=stored.size_gb)
                for stored in self._driver.list_volumes()
            ],
            in_hand=[command.claim_id for command in self.commands],
            after=self.seq,
        )


class Site(world.World):
    """One scheduler that audits one backend, whose driver may lie."""

    def __init__(self, driver: Driver, lie: Lie | None = None, **options: Any) -> None:
        driver.check()
        self._driver, self._lie = driver, lie
        self._asked: set[str] = set()
        self.volumes: dict[str, int] = {}
        super().__init__({}, **options)
        self.start_agent()
        self.report()

    def start_agent(self) -> None:
        """Start an agent process: hello, listing."""
        self.agent = DriverAgent(self._driver, self._lie)
        hello = Hello(
            backend=world.BACKEND,
            nonce=self.agent.nonce,
            availability_zone="nova",
            driver="test",
            rpc_version=versions.CURRENT,
        )
        [welcome] = self.intake.hellos([hello])
        assert not isinstance(welcome, Exception)
        self.agent.epoch = welcome.epoch
        self.intake.listings([self.agent.listing()])

    def report_now(self, backend: str) -> None:
        """Note that a report is asked for."""
        self._asked.add("report")

    def list_now(self, backend: str) -> None:
        """Note that a listing is asked for."""
        self._asked.add("listing")

    def mend(self, lie: Lie | None = None) -> None:
        """Have the driver tell the truth from now on, or lie in another way."""
        self._lie = lie
        assert isinstance(self.agent, DriverAgent)
        self.agent._lie = lie

    def act(self, draw: random.Random) -> None:
        """Make, grow or delete a volume, as far as it is there and fits."""
        mine = draw.choice(list(self.volumes)) if self.volumes and draw.random() < 0.6 else None
        if mine is None:
            size = draw.randint(1, 2)
            [answer] = self.create(size)
            if isinstance(answer, Answer) and answer.pool is not None:
                self.volumes[answer.volume_id] = size
        elif draw.random() < 0.5:
            answered = self.extend(mine, self.volumes[mine] + 1)
            if isinstance(answered, Answer) and answered.pool is not None:
                self.volumes[mine] += 1
        else:
            try:
                self.delete(mine)
            except errors.Conflict:  # its last operation failed
                return
            del self.volumes[mine]

    def work(self) -> None:
        """Have the agent do what it was told to."""
        while (outcome := self.agent.work()) is not None:
            self.deliver(outcome)

    def look(self, seconds: float = 60.0, between: Callable[[], object] = lambda: None) -> dict[str, set[str]]:
        """Report after a while, list if that is asked for, and return what the auditor has found by now, by pool.

        ``between`` happens after each look at the storage.
        """
        self.now += seconds
        self._asked = {"report"}
        for _ in range(4):
            asked, self._asked = self._asked, set()
            if "report" in asked:
                report = self.agent.look()
                between()
                self.deliver(report)
            if "listing" in asked:
                listing = self.agent.listing()
                between()
                self.intake.listings([listing])
            self.auditing.work()
            self.now += 4.0
            if not self._asked:
                break
        return {name.rpartition("#")[2]: set(found) for name, found in self.auditing.found.items()}
