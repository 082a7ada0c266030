# SPDX-License-Identifier: Apache-2.0
"""The commands of one backend: queued, running and ended operations.

Each claim id runs at most once in an epoch. The operations of one volume run one at a time in the order of arrival,
also if the volume has copies in several pools; operations of different volumes run in parallel. A repeated command is
answered from the record of its outcome.
"""

import itertools
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from typing import Protocol

from tonnage.agent import execution
from tonnage.agent.backoff import BackOff
from tonnage.drivers.base import Driver
from tonnage.rpc.messages import REPORT_STEP, Command, Outcome, Verb
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Number of recent operations whose durations tell how long the next one may take.
_RECENT = 32

_BACKOFF = BackOff()


class Epoch:
    """The clock of one epoch: ticks and numbers of reports. Each is given once and they only grow. Thread-safe.

    No wall clock orders the operations of a backend. Within an epoch, which the ledger gives, the agent counts ticks: a
    report takes one before the driver looks, an operation takes one after it has ended. So an operation with a lower
    tick than a report's had ended before the driver looked, and is contained in its figures.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._ticks = itertools.count(1)
        self._reports = itertools.count(REPORT_STEP, REPORT_STEP)
        self._lock = threading.Lock()

    def tick(self) -> int:
        """Take the next tick."""
        with self._lock:
            return next(self._ticks)

    def begin_report(self) -> tuple[int, int]:
        """Return the number of the next report and the tick that it covers; call this before the driver looks."""
        with self._lock:
            return next(self._reports), next(self._ticks)


@dataclass(slots=True)
class _Record:
    """A command and, once it has ended, its outcome. ``unknown`` is the number of its runs without a known outcome."""

    command: Command
    outcome: Outcome | None = None
    unknown: int = 0


class _Removals:
    """The deletes and purges of the epoch, so that a create that arrives after them is not run.

    A delete applies to all commands for its volume in that pool. A purge applies to the copy that one request made or
    left behind: another request may place the same volume in that pool again. Both count from their arrival until they
    fail or their records are dropped.
    """

    def __init__(self) -> None:
        self._claims: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)

    def __contains__(self, command: Command) -> bool:
        copy = command.pool, command.volume_id
        return (*copy, "") in self._claims or (*copy, command.request_id) in self._claims

    def add(self, removal: Command) -> None:
        self._claims[self._key(removal)].add(removal.claim_id)

    def discard(self, removal: Command) -> None:
        key = self._key(removal)
        if removal.claim_id in self._claims.get(key, ()):
            self._claims[key].remove(removal.claim_id)
            if not self._claims[key]:
                del self._claims[key]

    def clear(self) -> None:
        self._claims.clear()

    @staticmethod
    def _key(removal: Command) -> tuple[str, str, str]:
        return removal.pool, removal.volume_id, removal.request_id if removal.verb is Verb.PURGE else ""


class OperationsOwner(Protocol):
    """The backend whose operations run. Its methods are called on the threads of the operations."""

    def on_outcome(self, outcome: Outcome) -> None:
        """Take an outcome. That of a repeated command comes once more."""

    def on_crash(self, error: BaseException) -> None:
        """Take the error of a worker thread that has failed itself; the effect of its operation is unknown."""


class Operations:
    """Runs commands on a driver, and tells the ``owner`` their outcomes. Thread-safe.

    An operation whose outcome the storage does not tell stays in hand and is run again after growing pauses, until its
    outcome is known or a removal of the volume takes its place. The owner is told after the first such run.

    Records are kept until ``record_seconds`` after their outcome was acknowledged. That is safe: an acknowledged claim
    is settled in the ledger, and no scheduler sends its command any more. Only copies that are on the bus already can
    still arrive, and the bus drops those after ``rpc_message_ttl`` seconds, of which ``record_seconds`` is a multiple.
    """

    def __init__(
        self,
        driver: Driver,
        threads: int,
        record_seconds: float,
        owner: OperationsOwner,
        clock: Callable[[], float] = time.monotonic,
        backoff: BackOff = _BACKOFF,
    ) -> None:
        self._driver = driver
        self._backoff = backoff
        self._clock = clock
        self._record_seconds = record_seconds
        self._owner = owner
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix=f"{driver.backend} operation")
        # Guards the fields below; notified when an operation has ended.
        self._changed = threading.Condition()
        #: Whether no operation begins.
        self.suspended = True
        self._stopped = False
        self._epoch: Epoch | None = None
        self._queues: dict[str, deque[Command]] = {}
        self._running: dict[str, Command] = {}
        # Start times of the running operations, and durations of the recent ones, in seconds.
        self._begun: dict[str, float] = {}
        self._durations: deque[float] = deque(maxlen=_RECENT)
        self._records: dict[str, _Record] = {}
        self._unacknowledged: dict[str, Outcome] = {}
        self._acknowledged: deque[tuple[float, str]] = deque()
        self._removals = _Removals()
        # When the first command of a volume, whose outcome is unknown, is run again.
        self._rests: dict[str, float] = {}
        self._rest_worker = Worker(f"{driver.backend} repetitions", self._end_rests)

    def begin_epoch(self, epoch: Epoch) -> None:
        """Begin an epoch and drop the commands of the epoch before it. Only while suspended and idle."""
        with self._changed:
            self._epoch = epoch
            self._queues.clear()
            self._records.clear()
            self._unacknowledged.clear()
            self._acknowledged.clear()
            self._removals.clear()
            self._rests.clear()

    def suspend(self) -> None:
        """Begin no operation; commands are still accepted and wait."""
        with self._changed:
            self.suspended = True

    def stop(self) -> None:
        """Begin no operation any more."""
        with self._changed:
            self.suspended = self._stopped = True

    def wait_idle(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until no operation runs; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout)

    def end_within(self, seconds: float) -> bool:
        """Return whether the running operations may end within so many seconds.

        That is so if none of them, and none of the recent operations, has taken longer.
        """
        with self._changed:
            longest = max((self._clock() - began for began in self._begun.values()), default=0.0)
            return max([longest, *self._durations]) <= seconds

    def resume(self) -> None:
        """Begin the operations that wait, unless stopped."""
        with self._changed:
            if self._stopped:
                return
            self.suspended = False
            for volume_id in self._queues:
                self._start(volume_id)

    def in_hand(self, since: int | None = None) -> list[str]:
        """Return the ids of the claims whose commands wait or run, and of those that ended after the tick ``since``."""
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
        """Accept a command. A command of another epoch is ignored: its sender does not know the present epoch."""
        with self._changed:
            epoch = self._epoch
            if epoch is None or command.epoch != epoch.number:
                # Its scheduler sends it again with the epoch that it reads from the ledger.
                LOG.info(
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
            abandoned: Outcome | None = None
            if record is None:
                record = self._records[command.claim_id] = _Record(command)
                if command.verb in execution.REMOVING:
                    self._removals.add(command)
                    abandoned = self._abandon(command.volume_id, epoch)
                elif command in self._removals:
                    result = self._after_removal(command)
                    record.outcome = self._outcome(command, result, epoch.tick())
                    self._unacknowledged[command.claim_id] = record.outcome
                if record.outcome is None:
                    self._queues.setdefault(command.volume_id, deque()).append(command)
                    if not self.suspended:
                        self._start(command.volume_id)
            outcome = record.outcome
        for ended in (abandoned, outcome):
            if ended is not None:
                self._owner.on_outcome(ended)

    def _after_removal(self, command: Command) -> execution.OperationResult:
        """Return the result of a command that comes after a removal of its volume, and is not run."""
        queue = self._queues.get(command.volume_id, ())
        running = self._running.get(command.volume_id)
        if command.verb in execution.REPEATED and any(
            earlier.verb in execution.REMOVING for earlier in (*queue, *([] if running is None else [running]))
        ):
            # An earlier process may have run it, and the removal has not ended.
            return execution.abandoned(command)
        message = f"volume {command.volume_id} has been deleted from pool {self._driver.backend}#{command.pool}"
        return execution.OperationResult(ok=False, size_gb=0.0, clean=True, message=message)

    def acknowledge(self, claim_id: str) -> None:
        """Record that a scheduler has received the outcome of a claim."""
        now = self._clock()
        with self._changed:
            self._unacknowledged.pop(claim_id, None)
            self._acknowledged.append((now, claim_id))
            while self._acknowledged[0][0] < now - self._record_seconds:
                record = self._records.pop(self._acknowledged.popleft()[1], None)
                if record is not None:
                    self._removals.discard(record.command)

    def close(self) -> None:
        """Stop, and end the threads once their operations have ended; commands that wait are dropped."""
        self.stop()
        self._rest_worker.stop(timeout=0.0)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self, volume_id: str) -> None:
        self._pool.submit(self._work, volume_id).add_done_callback(self._check_worker)

    def _check_worker(self, done: "futures.Future[None]") -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._owner.on_crash(error)

    def _work(self, volume_id: str) -> None:
        with self._changed:
            queue = self._queues.get(volume_id)
            # A surplus call is harmless: the end of an operation starts the next one of its volume.
            if self.suspended or not queue or volume_id in self._running or self._epoch is None:
                return
            if volume_id in self._rests:
                return
            command = self._running[volume_id] = queue.popleft()
            record = self._records[command.claim_id]
            self._begun[volume_id] = self._clock()
            epoch = self._epoch
        # A refused create of an earlier process left a record with the driver; an extend leaves none.
        may_have_run = command.sent_before and command.verb is Verb.EXTEND
        result = execution.execute(self._driver, command, is_repeated=record.unknown > 0 or may_have_run)
        with self._changed:
            if result.unknown and command.verb not in execution.REMOVING and command in self._removals:
                result = execution.abandoned(command)
            outcome = self._outcome(command, result, epoch.tick())
            del self._running[volume_id]
            self._durations.append(self._clock() - self._begun.pop(volume_id))
            if outcome.unknown:
                queue.appendleft(command)
                self._rest(record)
            else:
                self._end(record, outcome)
                if not queue:
                    del self._queues[volume_id]
                elif not self.suspended:
                    self._start(volume_id)
            self._changed.notify_all()
        if not outcome.unknown or record.unknown == 1:
            self._log(command, outcome)
            self._owner.on_outcome(outcome)

    def _end(self, record: _Record, outcome: Outcome) -> None:
        record.outcome = self._unacknowledged[outcome.claim_id] = outcome
        if not outcome.ok:
            self._removals.discard(record.command)

    def _rest(self, record: _Record) -> None:
        """Let the volume of a command whose outcome is unknown rest until it is run again."""
        record.unknown += 1
        self._rests[record.command.volume_id] = self._clock() + self._backoff.after(record.unknown)
        if not self._stopped:
            if not self._rest_worker.alive:
                self._rest_worker.start()
            self._rest_worker.wake()

    def _end_rests(self) -> float | None:
        """Run the commands whose rest is over; return the seconds until others are, None without any."""
        with self._changed:
            now = self._clock()
            for volume_id in [volume_id for volume_id, until in self._rests.items() if until <= now]:
                del self._rests[volume_id]
                if not self.suspended:
                    self._start(volume_id)
            return max(0.0, min(self._rests.values()) - now) if self._rests else None

    def _abandon(self, volume_id: str, epoch: Epoch) -> Outcome | None:
        """End the command of a resting volume that a removal has made pointless, and return its outcome."""
        queue = self._queues.get(volume_id)
        if volume_id not in self._rests or not queue:
            return None
        command = queue[0]
        if command.verb in execution.REMOVING or command not in self._removals:
            return None
        queue.popleft()
        del self._rests[volume_id]
        outcome = self._outcome(command, execution.abandoned(command), epoch.tick())
        self._end(self._records[command.claim_id], outcome)
        return outcome

    def _log(self, command: Command, outcome: Outcome) -> None:
        LOG.log(
            logging.INFO if outcome.ok else logging.WARNING,
            "[%s] %s volume %s in pool %s#%s, claim %s: %s",
            command.request_id,
            command.verb,
            command.volume_id,
            self._driver.backend,
            command.pool,
            command.claim_id,
            f"done, {outcome.size_gb:g} GiB" if outcome.ok else f"failed: {outcome.message}",
        )

    def _outcome(self, command: Command, result: execution.OperationResult, tick: int) -> Outcome:
        return Outcome(
            backend=self._driver.backend,
            epoch=command.epoch,
            claim_id=command.claim_id,
            ok=result.ok,
            end_tick=tick,
            size_gb=result.size_gb,
            clean=result.clean,
            message=result.message,
            unknown=result.unknown,
        )
