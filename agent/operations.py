# SPDX-License-Identifier: Apache-2.0
"""The commands of one backend: queued, running, ended.

Each claim id runs at most once in an epoch, one operation per volume at a time and in the order of arrival, also where
the volume has copies in several pools; different volumes run side by side. A command that is repeated is answered from
the record of how it ended.
"""

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass

from tonnage.agent import execution
from tonnage.agent.epoch import Epoch
from tonnage.drivers.base import Driver
from tonnage.rpc.messages import Command, Outcome, Verb

LOG = logging.getLogger(__name__)

#: By how many of the last operations it is told how long the next may take.
_LATELY = 32


@dataclass(slots=True)
class _Record:
    """A command and, once it has ended, its outcome."""

    command: Command
    outcome: Outcome | None = None


class _Gone:
    """What was deleted, so that nothing is made for it any more: a create that comes late would make it for nobody.

    A delete is of a volume that nobody wants, and goes for everything that is ordered for it in that pool. A purge is
    of the copy that one request made, or left behind: the same volume may come to that pool again by another request.
    Both count from when they are taken in until they have failed or their records are dropped.
    """

    def __init__(self) -> None:
        self._orders: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)

    def __contains__(self, command: Command) -> bool:
        copy = command.pool, command.volume_id
        return (*copy, "") in self._orders or (*copy, command.request_id) in self._orders

    def add(self, order: Command) -> None:
        self._orders[self._key(order)].add(order.claim_id)

    def discard(self, order: Command) -> None:
        key = self._key(order)
        if order.claim_id in self._orders.get(key, ()):
            self._orders[key].remove(order.claim_id)
            if not self._orders[key]:
                del self._orders[key]

    def clear(self) -> None:
        self._orders.clear()

    @staticmethod
    def _key(order: Command) -> tuple[str, str, str]:
        return order.pool, order.volume_id, order.request_id if order.verb is Verb.PURGE else ""


class Operations:
    """Runs commands on a driver. Thread-safe.

    ``ended`` is called with every outcome, for a repeated command once more. ``crashed`` is called if a worker itself
    fails, after which nothing can be said of what it did.

    Records are kept until ``record_seconds`` after their outcome was acknowledged. That is safe: an acknowledged claim
    is settled in the ledger and no scheduler sends its command any more, so what can still arrive are copies already on
    the bus, and the bus drops those after ``rpc_message_ttl``, of which ``record_seconds`` is a multiple.
    """

    def __init__(
        self,
        driver: Driver,
        threads: int,
        record_seconds: float,
        ended: Callable[[Outcome], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._driver = driver
        self._record_seconds = record_seconds
        self._ended = ended
        self._crashed = crashed
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix=f"{driver.backend} operation")
        # Guards all below; notified when an operation has ended.
        self._changed = threading.Condition()
        self._held = True
        self._stopped = False
        self._epoch: Epoch | None = None
        self._queues: dict[str, deque[Command]] = {}
        self._running: dict[str, Command] = {}
        # Since when each of these runs, and for how many seconds the last ones did.
        self._begun: dict[str, float] = {}
        self._lasted: deque[float] = deque(maxlen=_LATELY)
        self._records: dict[str, _Record] = {}
        self._unacknowledged: dict[str, Outcome] = {}
        self._acknowledged: deque[tuple[float, str]] = deque()
        self._gone = _Gone()

    def adopt(self, epoch: Epoch) -> None:
        """Begin an epoch: commands of the one before are forgotten. Only while held and drained."""
        with self._changed:
            self._epoch = epoch
            self._queues.clear()
            self._records.clear()
            self._unacknowledged.clear()
            self._acknowledged.clear()
            self._gone.clear()

    def hold(self) -> None:
        """Begin nothing new; commands are still taken in and wait."""
        with self._changed:
            self._held = True

    def stop(self) -> None:
        """Hold for good."""
        with self._changed:
            self._held = self._stopped = True

    def drained(self, timeout: float) -> bool:
        """Wait until nothing runs; tell whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout)

    def brief(self, seconds: float) -> bool:
        """Tell whether what runs may end within so many seconds, as it has not run longer, nor has any lately."""
        with self._changed:
            longest = max((time.monotonic() - began for began in self._begun.values()), default=0.0)
            return max([longest, *self._lasted]) <= seconds

    def release(self) -> None:
        """Begin what waits, unless stopped."""
        with self._changed:
            if self._stopped:
                return
            self._held = False
            for volume_id in self._queues:
                self._start(volume_id)

    def in_hand(self, since: int | None = None) -> list[str]:
        """Return the claims whose commands wait or run; also those that have ended after the tick ``since``."""
        with self._changed:
            waiting = [command.claim_id for queue in self._queues.values() for command in queue]
            running = [command.claim_id for command in self._running.values()]
            if since is None:
                return running + waiting
            outcomes = [record.outcome for record in self._records.values() if record.outcome is not None]
            return running + waiting + [outcome.claim_id for outcome in outcomes if outcome.end_tick > since]

    def unacknowledged(self) -> list[Outcome]:
        """Return the outcomes that no scheduler has acknowledged yet."""
        with self._changed:
            return list(self._unacknowledged.values())

    def submit(self, command: Command) -> None:
        """Take a command in. One of another epoch is ignored: whoever sent it does not know the present one."""
        with self._changed:
            epoch = self._epoch
            if epoch is None or command.epoch != epoch.number:
                LOG.warning(
                    "Backend %s is in epoch %s and ignores claim %s of epoch %d: %s volume %s",
                    self._driver.backend,
                    "none" if epoch is None else epoch.number,
                    command.claim_id,
                    command.epoch,
                    command.verb,
                    command.volume_id,
                )
                return
            record = self._records.get(command.claim_id)
            outcome = self._take_in(command, epoch) if record is None else record.outcome
        if outcome is not None:
            self._ended(outcome)

    def acknowledge(self, claim_id: str) -> None:
        """Note that a scheduler has the outcome of a claim."""
        now = time.monotonic()
        with self._changed:
            self._unacknowledged.pop(claim_id, None)
            self._acknowledged.append((now, claim_id))
            while self._acknowledged[0][0] < now - self._record_seconds:
                record = self._records.pop(self._acknowledged.popleft()[1], None)
                if record is not None:
                    self._gone.discard(record.command)

    def close(self) -> None:
        """Stop, and end the threads once their operations have ended; what waits is dropped."""
        self.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _take_in(self, command: Command, epoch: Epoch) -> Outcome | None:
        record = self._records[command.claim_id] = _Record(command)
        if command.verb in execution.REMOVING:
            self._gone.add(command)
        elif command in self._gone:
            message = f"volume {command.volume_id} has been deleted from pool {self._driver.backend}#{command.pool}"
            ended = execution.Ended(ok=False, size_gb=0.0, clean=True, message=message)
            record.outcome = self._unacknowledged[command.claim_id] = self._outcome(command, ended, epoch.tick())
            return record.outcome
        self._queues.setdefault(command.volume_id, deque()).append(command)
        if not self._held:
            self._start(command.volume_id)
        return None

    def _start(self, volume_id: str) -> None:
        self._pool.submit(self._work, volume_id).add_done_callback(self._look_at)

    def _look_at(self, done: "futures.Future[None]") -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._crashed(error)

    def _work(self, volume_id: str) -> None:
        with self._changed:
            queue = self._queues.get(volume_id)
            # Called too often rather than too seldom: whoever ends the operation in front starts the next.
            if self._held or not queue or volume_id in self._running or self._epoch is None:
                return
            command = self._running[volume_id] = queue.popleft()
            self._begun[volume_id] = time.monotonic()
            epoch = self._epoch
        ended = execution.execute(self._driver, command)
        outcome = self._outcome(command, ended, epoch.tick())
        self._log(command, outcome)
        with self._changed:
            self._records[command.claim_id].outcome = self._unacknowledged[command.claim_id] = outcome
            if not outcome.ok:
                self._gone.discard(command)
            del self._running[volume_id]
            self._lasted.append(time.monotonic() - self._begun.pop(volume_id))
            if not queue:
                del self._queues[volume_id]
            elif not self._held:
                self._start(volume_id)
            self._changed.notify_all()
        self._ended(outcome)

    def _outcome(self, command: Command, ended: execution.Ended, tick: int) -> Outcome:
        return Outcome(
            backend=self._driver.backend,
            epoch=command.epoch,
            claim_id=command.claim_id,
            ok=ended.ok,
            end_tick=tick,
            size_gb=ended.size_gb,
            clean=ended.clean,
            message=ended.message,
        )

    def _log(self, command: Command, outcome: Outcome) -> None:
        LOG.info(
            "[%s] %s volume %s in pool %s#%s, claim %s: %s",
            command.request_id,
            command.verb,
            command.volume_id,
            self._driver.backend,
            command.pool,
            command.claim_id,
            f"done, {outcome.size_gb:g} GiB" if outcome.ok else f"failed: {outcome.message}",
        )
