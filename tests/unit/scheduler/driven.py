# SPDX-License-Identifier: Apache-2.0
"""The small world on a real driver: what it reports and lists goes to the real scheduler, ledger and auditor."""

import contextlib
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.scheduler import world
from tonnage.agent import audit_snapshot, execution
from tonnage.capacity import errors
from tonnage.drivers.base import Driver, StoredVolume
from tonnage.rpc.messages import Answer, BackendReport, Hello, ListedVolume, Listing, Outcome

Report = list[dict[str, Any]]
Lie = Callable[[Report], object]


class Watched:
    """A driver that may lie, and during whose looks something may happen.

    ``lie`` changes what it reports, ``happens`` is called after each look at the storage. Without ``looks_once`` it is
    one of somebody else's that cannot have several things come from one look.
    """

    def __init__(self, driver: Driver, looks_once: bool) -> None:
        self._driver = driver
        self._looks_once = looks_once
        self.lie: Lie = lambda report: None
        self.happens: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def one_look(self) -> contextlib.AbstractContextManager[bool]:
        return self._driver.one_look() if self._looks_once else Driver.one_look(self._driver)

    def report(self) -> Report:
        pools: Report = [dict(pool) for pool in self._driver.report()]
        self.lie(pools)
        self.happens()
        return pools

    def list_volumes(self) -> Sequence[StoredVolume]:
        volumes = self._driver.list_volumes()
        self.happens()
        return volumes


class DriverAgent(world.Agent):
    """An agent process that runs a driver."""

    def __init__(self, driver: Any) -> None:
        super().__init__({})
        self._driver = driver

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
        pools = self._driver.report()
        return BackendReport(
            backend=world.BACKEND,
            epoch=self.epoch,
            seq=self.seq,
            covers=covers,
            pools=pools,
            supports_auto_ratio=self._driver.supports_auto_ratio,
        )

    def listing(self) -> Listing:
        """List all volumes now, with the figures of now."""
        volumes, audit_snapshots = audit_snapshot.take(self._driver, lambda: not self.commands)
        return Listing(
            backend=world.BACKEND,
            epoch=self.epoch,
            tick=self.next_tick(),
            volumes=[ListedVolume(volume_id=stored.id, pool=stored.pool, size_gb=stored.size_gb) for stored in volumes],
            in_hand=[command.claim_id for command in self.commands],
            audit_snapshots=audit_snapshots,
        )


class Site(world.World):
    """One scheduler that audits one backend, whose driver is :class:`Watched`."""

    def __init__(self, driver: Driver, lie: Lie | None = None, *, looks_once: bool = True, **options: Any) -> None:
        driver.check()
        self.watched = Watched(driver, looks_once)
        self.mend(lie)
        self._asked: set[str] = set()
        self.volumes: dict[str, int] = {}
        super().__init__({}, **options)
        self.start_agent()
        self.report()

    def start_agent(self) -> None:
        """Start an agent process: hello, listing."""
        self.agent = DriverAgent(self.watched)
        hello = Hello(
            backend=world.BACKEND,
            nonce=self.agent.nonce,
            availability_zone="nova",
            driver="test",
        )
        [welcome] = self.registration.hellos([hello])
        assert not isinstance(welcome, Exception)
        self.agent.epoch = welcome.epoch
        self.registration.listings([self.agent.listing()])

    def report_now(self, backend: str) -> None:
        """Note that a report is asked for."""
        self._asked.add("report")

    def list_now(self, backend: str) -> None:
        """Note that a listing is asked for."""
        self._asked.add("listing")

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None:
        """Ignore which storages are shared: none are."""

    def mend(self, lie: Lie | None = None) -> None:
        """Have the driver tell the truth from now on, or lie in another way."""
        self.watched.lie = lie or (lambda report: None)

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

    def look(self, seconds: float = 60.0) -> dict[str, set[str]]:
        """Report after a while, list if that is asked for, and return what the auditor has found by now, by pool."""
        self.now += seconds
        self._asked = {"report"}
        for _ in range(4):
            asked, self._asked = self._asked, set()
            if "report" in asked:
                self.deliver(self.agent.look())
            if "listing" in asked:
                self.registration.listings([self.agent.listing()])
            self.audit.work()
            self.now += 4.0
            if not self._asked:
                break
        return {name.rpartition("#")[2]: set(found) for name, found in self.audit.findings.items()}
