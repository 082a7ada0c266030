# SPDX-License-Identifier: Apache-2.0
"""One agent process: the real operations and looks, with its threads taking turns."""

import uuid
from collections.abc import Callable

from tests.unit.scheduler.model.storage import Fate, ModelDriver
from tests.unit.scheduler.model.turns import Workers
from tonnage.agent.operations import Epoch, Operations
from tonnage.agent.snapshots import StampSource, StorageSnapshots
from tonnage.rpc.messages import BackendReport, Command, Hello, Listing, Outcome

#: Longer than anything here takes.
_NEVER = 1e6


class Agent:
    """An agent process. ``send`` puts an outcome on the bus, ``scheduler`` gives stamps.

    It joins in steps, as a real one does: hello, list, and only once that was acknowledged it reports.
    """

    def __init__(
        self,
        driver: ModelDriver,
        send: Callable[[Outcome], None],
        scheduler: StampSource,
    ) -> None:
        self.backend = driver.backend
        self.driver = driver
        self.nonce = uuid.uuid4().hex
        self.epoch: Epoch | None = None
        self.listing: Listing | None = None
        self.joined = False
        #: In the middle of a look.
        self.looking = False
        self.workers = Workers()
        self.on_outcome = send
        self.operations = Operations(driver, 1, _NEVER, self)
        self.operations._pool = self.workers  # type: ignore[assignment]
        self.snapshots = StorageSnapshots(driver, self.operations, scheduler, 0.0, _NEVER)

    def hello(self) -> Hello:
        """Introduce the process; the same each time."""
        self.operations.suspend()
        return Hello(backend=self.backend, nonce=self.nonce, availability_zone="nova", driver="model")

    def welcome(self, epoch: int) -> None:
        """Begin an epoch."""
        self.epoch = Epoch(epoch)
        self.operations.begin_epoch(self.epoch)

    def list(self) -> Listing:
        """List what is there; the first list is part of joining, and operations begin after it."""
        assert self.epoch is not None
        self.looking = True
        try:
            listing = self.snapshots.listing(self.epoch, with_figures=self.joined)
        finally:
            self.looking = False
        if not self.joined:
            self.operations.resume()
        return listing

    def look(self) -> BackendReport:
        """Report this moment; when it is delivered is another matter."""
        assert self.epoch is not None
        self.looking = True
        try:
            return self.snapshots.report(self.epoch)
        finally:
            self.looking = False

    def take(self, command: Command) -> None:
        """Take in a command that has arrived."""
        if self.epoch is not None:
            self.operations.submit(command)

    def work(self, fate: Fate, number: int = 0) -> None:
        """Go on with one operation."""
        self.driver.fate = fate
        try:
            self.workers.next(number)
        finally:
            self.driver.fate = Fate()

    @property
    def commands(self) -> "list[Command]":
        """The commands that wait, by volume in their order."""
        return [command for queue in self.operations._queues.values() for command in queue]

    @staticmethod
    def on_crash(error: BaseException) -> None:
        raise error
