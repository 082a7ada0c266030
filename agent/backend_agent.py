# SPDX-License-Identifier: Apache-2.0
"""One backend of an agent: its driver, its epoch in the ledger and its RPC server.

A backend joins (hello, listing of volumes) and then reports: at once, after every change and every polling interval.
One thread does both in turn, so that the backend does not report between two epochs, and no two reports overlap.
Commands run on other threads, see :mod:`tonnage.agent.operations`, and so do further listings, see
:mod:`tonnage.agent.listing_loop`.
"""

import contextlib
import dataclasses
import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from tonnage.agent import endpoint
from tonnage.agent.backoff import FailureLog, gap_after, retry
from tonnage.agent.listing_loop import ListingLoop
from tonnage.agent.lock import BackendLock
from tonnage.agent.operations import Epoch, Operations
from tonnage.agent.options import STOP_SECONDS, Settings
from tonnage.agent.outbox import Outbox
from tonnage.agent.snapshots import StorageSnapshots
from tonnage.capacity import errors, plugin_errors
from tonnage.drivers.base import Driver
from tonnage.rpc import contract, messages
from tonnage.rpc import transport as rpc
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import NoticeCode
from tonnage.rpc.packed_reports import PackedReport

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Random bytes in a mark of the storage.
_MARK_BYTES = 4

#: Seconds between two checks of a backend that rests between reports whether its operations have ended.
_STEP = 0.1

#: Seconds between two questions to the driver whether it has news to report, and between reports of a drain.
_NEWS_INTERVAL = 1.0

#: Seconds after the first report without pools in which commands may still arrive for volumes that were placed before.
_DRAIN_SECONDS = 2.0


class BackendAgent:
    """Runs one backend, ``host@backend``, from :meth:`start` until :meth:`stop`, the end of a drain or a fatal failure.

    ``failure`` is the message of that failure, None after a plain stop or a drain. ``trouble`` is the reason
    why the storage cannot be used yet, None if it can.
    """

    def __init__(self, backend: str, driver: Driver, transport: rpc.Transport, settings: Settings) -> None:
        self.backend = backend
        self.failure: str | None = None
        self.trouble: str | None = None
        self._driver = driver
        self.settings = settings
        self._lock = BackendLock(settings.lock_folder, backend)
        self._scheduler = SchedulerClient(transport)
        self.operations = Operations(
            driver,
            settings.threads,
            settings.record_seconds,
            self,
            backoff=settings.backoff,
        )
        self._server = rpc.server(transport, rpc.TOPIC_AGENT, backend, endpoint.build(self, self.operations))
        self._serving = False
        self._snapshots = StorageSnapshots(driver, self.operations, self, settings.quiet_wait, settings.quiet_look)
        self.outbox = Outbox(backend, self, settings.backoff)
        self._listing_loop = ListingLoop(backend, self, settings.listing_interval, settings.backoff)
        # The same during the life of this process, so that a repeated hello opens no new epoch. Set by start().
        self._nonce = ""
        self._epoch: Epoch | None = None
        # The epoch of the last answer to a hello; in the end that of ``_epoch`` too.
        self._introduced: int | None = None
        # For how many seconds it waits for the answer to the next hello, and whether it was told to come back later. It
        # waits twice as long after each one without an answer, so the bus keeps the hello until a scheduler that has
        # much to do takes it.
        self._patience = self._first_patience = contract.HELLO.timeout or contract.LONGEST_HELLO
        self._told_to_come_back = False
        # The marks of the storage by pool, and whether the storage has to be checked before the next attempt.
        self._marks: Mapping[str, str | None] = {}
        self._check_again = False
        self._failure_log = FailureLog(LOG)
        # It has a log of its own, which a successful report does not end.
        self._news_failure_log = FailureLog(LOG)
        # The backend has to say one hello for each request of one; start() counts as the first request.
        self._hello_lock = threading.Lock()
        self.hellos_requested = 1
        self._hellos_done = 0
        # Set: there is work before the next polling interval.
        self._wake = threading.Event()
        # The time since which each report has followed the one before it closely; None: the last one has not.
        self._busy_since: float | None = None
        # Set: the attempt under way has become pointless.
        self._interrupt = threading.Event()
        self._stopping = threading.Event()
        self._draining = threading.Event()
        self._drained = False
        self._closing = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"{backend} agent", daemon=True)

    def start(self) -> None:
        """Lock the backend, and begin; returns without waiting for the storage or a scheduler.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if another process holds the backend.
        """
        self._lock.acquire()
        self._nonce = self._lock.holder().nonce
        self.outbox.start()
        self._listing_loop.start()
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most ``timeout`` seconds until the backend has ended; return whether it has."""
        return self._closed.wait(timeout)

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Tell the schedulers, accept no more commands, let running operations end, and release the lock.

        Operations that take longer than ``timeout`` seconds continue, and the backend stays locked until the process
        ends.
        """
        self._interrupt_all()
        self._close(timeout)

    def drain(self) -> None:
        """Withdraw all pools, let the operations end, report that and stop; returns at once.

        Commands are accepted until then. It takes as long as the operations take, and until a scheduler has the
        outcomes. The volumes stay on the storage and in the ledger.
        """
        LOG.info("Backend %s is withdrawn and stops when its operations have ended", self.backend)
        self._draining.set()
        self._snapshots.withdraw()
        if self._epoch is None:
            # It has not joined, so no scheduler has placed a volume here since its start.
            self._drained = True
            self._interrupt_all()
        self._wake.set()

    def report_now(self) -> None:
        """Report soon."""
        self._wake.set()

    def list_now(self) -> None:
        """List all volumes soon."""
        self._listing_loop.request()

    def take_stamps(self, storage_ids: Collection[str]) -> None:
        """Take stamps of these storages before each report from now on; report soon if one of them is new."""
        if self._snapshots.add_shared_storages(storage_ids):
            self._wake.set()

    def rejoin(self) -> None:
        """Say hello again: the ledger does not know this epoch."""
        with self._hello_lock:
            self.hellos_requested += 1
            # A message that the agent tries to send at this moment belongs to an unknown epoch.
            self._interrupt.set()
        self._wake.set()

    def _main(self) -> None:
        try:
            retry(self._check_storage, self._log_start_failure, self._stopping, self.settings.backoff)
            while not self._stopping.is_set():
                if self._hellos_done < self.hellos_requested:
                    self._join()
                elif self._draining.is_set():
                    self._finish_operations()
                else:
                    self._pause(self._report() or 0.0)
        except BaseException as error:
            if self._stopping.is_set():
                # stop() does not wait for a call that hangs, and its transport may be closed by now.
                end = plugin_errors.described(error)
                LOG.info("Backend %s: a call has ended after the stop: %s", self.backend, end)
                return
            LOG.exception("Backend %s", self.backend)
            self._fail(f"backend {self.backend} ends after an internal error ({type(error).__name__}); see the log")
        finally:
            if self.failure is not None or self._drained:
                self._close(STOP_SECONDS)

    def _check_storage(self) -> None:
        """Check the storage. Raises :class:`~tonnage.capacity.errors.TonnageError` if it cannot be used now."""
        _call_driver(self._driver.check)
        self.trouble = None
        self._failure_log.recovered(f"Backend {self.backend} has started")

    def _log_start_failure(self, error: BaseException | None) -> None:
        self.trouble = str(error)
        self._failure_log.failed(f"Backend {self.backend} cannot start yet and keeps trying: {error}")
        if self._introduced is None:
            # So it is among the backends of the ledger, and shown as down.
            marks: Mapping[str, str | None] = {}
            with contextlib.suppress(*plugin_errors.CAUGHT):
                marks = self._driver.ledger_marks()
            with contextlib.suppress(*plugin_errors.CAUGHT):
                self._introduce(marks)
        self._notify(NoticeCode.FAILING, self.trouble)

    def _finish_operations(self) -> None:
        """Report until a report without pools contains all operations, then begin to stop; a hello comes first."""
        withdrawn_at: float | None = None
        while not self._stopping.is_set() and not self._joining():
            busy = self.operations.in_hand() or self.operations.unacknowledged()
            if self._report() is None:
                withdrawn_at = None
            elif withdrawn_at is None:
                withdrawn_at = time.monotonic()
            elif not busy and time.monotonic() - withdrawn_at >= _DRAIN_SECONDS:
                LOG.info("Backend %s has ended its operations; its volumes stay in the ledger", self.backend)
                self._drained = True
                self._interrupt_all()
                return
            self._stopping.wait(_NEWS_INTERVAL)

    def _pause(self, effort: float) -> None:
        """Wait for the polling interval or for work; changes that follow each other closely share a report.

        ``effort`` is how many seconds the driver needed for the last report; it gets at least as long a rest.
        """
        settings = self.settings
        began = time.monotonic()
        since, self._busy_since = self._busy_since, None
        busy_gap = gap_after(
            0.0 if since is None else began - since, settings.polling_interval, settings.busy_gap, settings.longest_gap
        )
        if self._wait_for_work(settings.polling_interval):
            if time.monotonic() - began < settings.busy_gap:
                self._busy_since = began if since is None else since
            rest = min(effort, settings.polling_interval)
            gap = settings.report_gap if since is None else busy_gap
            self._rest(began + max(gap, rest), began + max(busy_gap, rest))
        # Cleared before the driver reports: an operation that ends from now on leads to another report.
        self._wake.clear()

    def _wait_for_work(self, seconds: float) -> bool:
        """Wait at most so long for work or for news of the driver; return whether there is any."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            if self._wake.wait(min(remaining, _NEWS_INTERVAL)) or self._has_news():
                return True
        return self._wake.is_set()

    def _has_news(self) -> bool:
        try:
            return bool(self._driver.has_news())
        except plugin_errors.CAUGHT as error:
            self._news_failure_log.failed(
                f"Backend {self.backend} cannot tell whether something has changed: {plugin_errors.described(error)}"
            )
            return False

    def _rest(self, until: float, until_if_busy: float) -> None:
        """Wait until ``until``, while there are operations until ``until_if_busy``; both are monotonic times."""
        while not self._stopping.is_set():
            now = time.monotonic()
            if now >= until_if_busy or (now >= until and not self.operations.in_hand()):
                return
            self._stopping.wait(min(_STEP, until_if_busy - now))

    def _join(self) -> None:
        """Get an epoch and list the volumes, after all operations of an older epoch have ended.

        So their effects are in the listing and in every report of the new epoch. No operation begins before a scheduler
        has taken the listing: the commands that it names were only queued, and the storage may be the wrong one.
        """
        with self._hello_lock:
            requested = self.hellos_requested
            self._interrupt.clear()
            if self._stopping.is_set():
                return
        self.operations.suspend()
        while not self.operations.wait_idle(timeout=1.0):
            if self._stopping.is_set():
                return
        welcome = retry(self._hello, self._log_join_failure, self._stopping, self.settings.backoff)
        if welcome is None:
            return
        self._snapshots.add_shared_storages(welcome.shared_storages)
        self._begin_epoch(welcome.epoch)
        with self._hello_lock:
            self._hellos_done = requested
        self._serve()
        receipt = retry(self._send_first_listing, self._log_join_failure, self._interrupt, self.settings.backoff)
        if receipt is None:
            return
        text = f"Backend {self.backend} has joined"
        if not self._failure_log.recovered(text) and self._told_to_come_back:
            LOG.info("%s", text)
        self._told_to_come_back = False
        if not receipt.accepted:
            self._fail_superseded(self._current_epoch().number)
            return
        self.operations.resume()

    def _begin_epoch(self, number: int) -> None:
        if self._epoch is not None and self._epoch.number == number:
            LOG.debug("Backend %s stays in epoch %d", self.backend, number)
            return
        self.outbox.clear()
        self._epoch = Epoch(number)
        self.operations.begin_epoch(self._epoch)
        LOG.info("Backend %s is registered with the schedulers", self.backend)
        LOG.debug("Backend %s begins epoch %d", self.backend, number)

    def _serve(self) -> None:
        with self._closing:
            if not self._serving and not self._stopping.is_set():
                # One thread, so that commands are accepted in their order.
                self._server.start(override_pool_size=1)
                self._serving = True

    def _hello(self) -> messages.Welcome:
        """Say hello with the marks of the storage, and mark it if a scheduler accepts it."""
        with self._checked_again(errors.WrongStorage, errors.DriverError):
            welcome = self._introduce(_call_driver(self._driver.ledger_marks))
            if welcome.ledger_id:
                # Random: a mount point that was marked before the file system was mounted differs from that.
                mark = f"{welcome.ledger_id}-{secrets.token_hex(_MARK_BYTES)}"
                _call_driver(lambda: self._driver.mark_ledger(mark))
            self._marks = _call_driver(self._driver.ledger_marks)
        return welcome

    def _send_first_listing(self) -> messages.Receipt:
        # A driver that has marked the storage notices other storage by itself; a check would accept that.
        with self._checked_again(errors.WrongStorage):
            listing = self._snapshots.first_listing(self._current_epoch(), _texts(self._marks))
            return self._scheduler.call(contract.LISTING, listing)

    @contextlib.contextmanager
    def _checked_again(self, *reasons: type[errors.TonnageError]) -> Iterator[None]:
        """Check the storage first if the last attempt failed for such a reason: the right one may be there now."""
        if self._check_again:
            _call_driver(self._driver.check)
            self._check_again = False
        try:
            yield
        except reasons:
            self._check_again = True
            raise

    def _introduce(self, marks: Mapping[str, str | None]) -> messages.Welcome:
        """Say hello, and write nothing to the storage."""
        hello = messages.Hello(
            backend=self.backend,
            nonce=self._nonce,
            availability_zone=self.settings.availability_zone,
            driver=self.settings.driver_name,
            ledger_marks=_texts(marks),
        )
        try:
            welcome = self._scheduler.call(dataclasses.replace(contract.HELLO, timeout=self._patience), hello)
        except errors.NoAnswer:
            self._patience = min(2 * self._patience, contract.LONGEST_HELLO)
            raise
        self._patience = self._first_patience
        self._introduced = welcome.epoch
        return welcome

    def send_listing(self) -> None:
        """Send a listing of all volumes, unless the backend is joining, which does so by itself."""
        epoch = self._epoch
        if epoch is None or self._joining():
            return
        try:
            listing = self._snapshots.listing(epoch, with_figures=True)
        finally:
            # The figures that the driver reported for it may be news, and no report carried them.
            self._wake.set()
        if not self._scheduler.call(contract.LISTING, listing).accepted:
            self._check_superseded(epoch.number)

    def _report(self) -> float | None:
        """Send one report and return how many seconds the driver needed for it, None after a failure.

        After a failure there is no report: the schedulers take a backend that stays silent for down.
        """
        try:
            report = self._snapshots.report(self._current_epoch())
            packed = PackedReport.of(report)
        except errors.TonnageError as error:
            self._log_report_failure(error.message)
            self._notify(NoticeCode.FAILING, error.message)
            return None
        except plugin_errors.CAUGHT as error:
            self._log_report_failure(plugin_errors.described(error), with_traceback=True)
            self._notify(NoticeCode.FAILING, plugin_errors.described(error))
            return None
        try:
            self._scheduler.cast(contract.REPORT, packed)
        except errors.TonnageError as error:
            self._log_report_failure(error.message)
            return None
        self._failure_log.recovered(f"Backend {self.backend} reports again")
        return report.age

    def _log_report_failure(self, text: str, with_traceback: bool = False) -> None:
        self._failure_log.failed(f"Backend {self.backend} could not report: {text}", with_traceback)

    def _notify(self, code: NoticeCode, text: str = "") -> None:
        """Tell the schedulers why no report comes. Without a bus they are not told, and the silence has to do."""
        epoch = self._epoch
        number = self._introduced if epoch is None else epoch.number
        if number is None:
            return
        # The schedulers apply it unless a later report has come, so it has a number among the reports.
        seq = 1 if epoch is None else epoch.begin_report()[0]
        notice = messages.Notice(backend=self.backend, epoch=number, seq=seq, code=code, text=text)
        with contextlib.suppress(*plugin_errors.CAUGHT):
            self._scheduler.cast(contract.NOTICE, notice)

    def _current_epoch(self) -> Epoch:
        if self._epoch is None:
            raise RuntimeError("the backend has not joined")
        return self._epoch

    def _log_join_failure(self, error: BaseException | None) -> None:
        if isinstance(error, errors.Busy):
            level = logging.DEBUG if self._told_to_come_back else logging.INFO
            self._told_to_come_back = True
            LOG.log(level, "Backend %s waits to join: %s; it tries in %g s", self.backend, error.message, error.seconds)
            return
        self._failure_log.failed(f"Backend {self.backend} cannot join yet and keeps trying: {error}")
        if not isinstance(error, errors.Unavailable):
            self._notify(NoticeCode.FAILING, str(error))

    def on_outcome(self, outcome: messages.Outcome) -> None:
        """Send an outcome, and report soon."""
        self.outbox.put(outcome)
        self._wake.set()

    def deliver(self, outcomes: Sequence[messages.Outcome]) -> None:
        """Send outcomes. It raises an exception if they have to be sent again, which is safe."""
        receipts = self._scheduler.call(contract.OUTCOMES, messages.Outcomes(outcomes=list(outcomes)))
        for outcome, receipt in zip(outcomes, receipts, strict=True):
            if not receipt.accepted:
                self._check_superseded(outcome.epoch)
            elif not outcome.unknown:
                self.operations.acknowledge(outcome.claim_id)

    def stamps(self, query: messages.StampQuery) -> dict[str, int]:
        """Return stamps of storages from a scheduler, for a report that has not begun."""
        return self._scheduler.call(contract.STAMPS, query)

    def _joining(self) -> bool:
        with self._hello_lock:
            return self._hellos_done < self.hellos_requested

    def _check_superseded(self, epoch: int) -> None:
        """End the backend if a scheduler has refused a message because the message's epoch is over."""
        if epoch != self._current_epoch().number:
            return
        if self._joining():
            # The ledger may have given the next epoch already, which this process begins in a moment.
            raise errors.Unavailable("the backend is saying hello again")
        self._fail_superseded(epoch)

    def _fail_superseded(self, epoch: int) -> None:
        self._fail(
            f"backend {self.backend}: epoch {epoch} is over, another process has introduced itself as this backend; "
            "no two agents may run backends of the same name, so this one stops serving it"
        )

    def on_crash(self, error: BaseException) -> None:
        """End the backend."""
        LOG.error("Backend %s: a worker failed", self.backend, exc_info=error)
        self._fail(f"backend {self.backend} ends after an internal error ({type(error).__name__}); see the log")

    def _fail(self, message: str) -> None:
        """Make the agent's own thread end the backend."""
        if self.failure is None and not self._stopping.is_set():
            self.failure = message
            LOG.error("%s", message)
            self._interrupt_all()

    def _interrupt_all(self) -> None:
        with self._hello_lock:
            self._stopping.set()
            self._interrupt.set()
        self._wake.set()
        self._listing_loop.stop()
        self.operations.stop()

    def _close(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        # First of all, so that volumes go elsewhere. On a thread, because a bus that does not answer holds it up.
        farewell = threading.Thread(
            target=self._notify,
            args=(NoticeCode.WITHDRAWN if self._drained else NoticeCode.STOPPED, self.failure or ""),
            name=f"{self.backend} farewell",
            daemon=True,
        )
        farewell.start()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            # A thread that hangs in a call or in the driver ends with the process.
            self._thread.join(min(self.settings.flush_seconds, timeout))
        with self._closing:
            if self._closed.is_set():
                return
            if self._serving:
                self._server.stop()
                self._server.wait()
            idle = self.operations.wait_idle(max(0.0, deadline - time.monotonic()))
            if self.failure is None:
                # Also the outcomes that a worker has not put there yet, and at once those that wait for an attempt.
                for outcome in self.operations.unacknowledged():
                    self.outbox.put(outcome)
                self.outbox.flush(min(self.settings.flush_seconds, max(0.0, deadline - time.monotonic())))
            self.outbox.close()
            self.operations.close()
            farewell.join(min(self.settings.flush_seconds, max(0.0, deadline - time.monotonic())))
            if idle:
                self._lock.release()
            else:
                LOG.warning(
                    "Backend %s: operations still run after %g s; it stays locked until this process ends",
                    self.backend,
                    timeout,
                )
            LOG.info("Backend %s has stopped", self.backend)
            self._closed.set()


def _texts(marks: Mapping[str, str | None]) -> dict[str, str]:
    """Return marks for a message."""
    return {pool: mark or "" for pool, mark in marks.items()}


def _call_driver(method: Callable[[], T]) -> T:
    """Return the result of a method of a driver, whose other exceptions become DriverError."""
    try:
        return method()
    except errors.TonnageError:
        raise
    except plugin_errors.CAUGHT as error:
        raise errors.DriverError(plugin_errors.described(error)) from error
