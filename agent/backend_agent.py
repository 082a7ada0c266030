# SPDX-License-Identifier: Apache-2.0
"""One backend: its driver, its place in the ledger's epochs, its RPC server.

A backend joins (hello, list of volumes) and then reports: right away, after every change and every polling interval.
One thread does both in turn, so nothing is reported while the backend is between two epochs, and no two reports
overlap. Commands run on other threads, see :mod:`tonnage.agent.operations`, and further lists are made beside all that.
"""

import logging
import threading
import time
import uuid
from collections.abc import Collection, Mapping, Sequence

from tonnage.agent.backoff import Complaints, until_done
from tonnage.agent.endpoint import AgentEndpoint
from tonnage.agent.epoch import Epoch
from tonnage.agent.listing_loop import Lister
from tonnage.agent.lock import BackendLock
from tonnage.agent.operations import Operations
from tonnage.agent.options import STOP_SECONDS, Settings
from tonnage.agent.outbox import Outbox
from tonnage.agent.snapshots import Looks
from tonnage.capacity import errors, plugin_errors
from tonnage.drivers.base import Driver
from tonnage.rpc import messages
from tonnage.rpc import transport as rpc
from tonnage.rpc.scheduler_client import SchedulerClient

LOG = logging.getLogger(__name__)

#: Of the time to stop, how long outcomes may wait for a scheduler. None is lost: the next process lists what is there.
_FLUSH_SECONDS = 5.0

#: How often, in seconds, a backend that rests between reports looks whether its operations have ended.
_STEP = 0.1

#: How often, in seconds, a driver is asked whether there is something new to report.
_GLANCE = 1.0


class BackendAgent:
    """Runs one backend, ``host@backend``, from :meth:`start` until :meth:`stop` or a failure that ends it.

    ``failure`` then says what happened; it is None after a plain stop.
    """

    def __init__(self, backend: str, driver: Driver, transport: rpc.Transport, settings: Settings) -> None:
        self.backend = backend
        self.failure: str | None = None
        self._driver = driver
        self._settings = settings
        self._lock = BackendLock(settings.lock_folder, backend)
        self._scheduler = SchedulerClient(transport)
        self._server = rpc.server(transport, rpc.TOPIC_AGENT, backend, AgentEndpoint(self))
        self._serving = False
        self._operations = Operations(driver, settings.threads, settings.record_seconds, self._ended, self._crashed)
        self._looks = Looks(driver, self._operations, self._stamp, settings.quiet_wait, settings.quiet_look)
        self._outbox = Outbox(backend, self._deliver, settings.pauses)
        self._lister = Lister(backend, self._tell_list, settings.listing_interval, settings.pauses)
        # The same for as long as this process runs the backend, so that a hello that is repeated opens no new epoch.
        self._nonce = uuid.uuid4().hex
        self._epoch: Epoch | None = None
        self._complaints = Complaints(LOG)
        # Reports that are well do not end it.
        self._unnoticed = Complaints(LOG)
        self._unstamped = Complaints(LOG)
        # One hello is owed for each time that it was asked for, the first one by start().
        self._asked = threading.Condition()
        self._hellos_asked = 1
        self._hellos_said = 0
        # Set: there is something to do before the next polling interval.
        self._wake = threading.Event()
        # Since when each report has come soon after the one before it; None: the last one has not.
        self._busy_since: float | None = None
        # Set: the attempt under way, whatever it is, has become pointless.
        self._interrupt = threading.Event()
        self._stopping = threading.Event()
        self._closing = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"{backend} agent", daemon=True)

    def start(self) -> None:
        """Lock the backend, check the storage, and begin; returns without waiting for a scheduler.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if another process holds the backend or the storage
        cannot be used, :class:`~tonnage.capacity.errors.DriverError` if it fails.
        """
        self._lock.acquire()
        try:
            self._driver.check()
        except BaseException:
            self._lock.release()
            raise
        self._outbox.start()
        self._lister.start()
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the backend has ended; tell whether it has."""
        return self._closed.wait(timeout)

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Take no more commands, let running operations end, send what can be sent, give the lock back.

        Operations that take longer than ``timeout`` seconds go on, and the backend stays locked until the process ends.
        """
        self._interrupt_all()
        self._close(timeout)

    def run(self, command: messages.Command) -> None:
        """Take a command in."""
        self._operations.submit(command)

    def report_now(self) -> None:
        """Report soon."""
        self._wake.set()

    def list_now(self) -> None:
        """List all volumes soon."""
        self._lister.soon()

    def take_stamps(self, storage_ids: Collection[str]) -> None:
        """Take stamps of storages before each look from now on; report soon if that is new of one of them."""
        if self._looks.share(storage_ids):
            self._wake.set()

    def rejoin(self) -> None:
        """Say hello again: the ledger does not know this epoch."""
        with self._asked:
            self._hellos_asked += 1
            self._asked.notify_all()
            # What the agent tries to tell at this moment belongs to an epoch that nobody knows.
            self._interrupt.set()
        self._wake.set()

    def _main(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._hellos_said < self._hellos_asked:
                    self._join()
                else:
                    self._pause(self._report())
        except BaseException as error:
            LOG.exception("Backend %s", self.backend)
            self._fail(f"backend {self.backend} ends after an internal error ({type(error).__name__}); see the log")
        finally:
            if self.failure is not None:
                self._close(STOP_SECONDS)

    def _pause(self, effort: float) -> None:
        """Wait for the polling interval or for something to do; changes that follow closely share a report.

        A storage that takes long to look (``effort``, in seconds) gets as long a time without.
        """
        settings = self._settings
        began = time.monotonic()
        since, self._busy_since = self._busy_since, None
        busy_gap = settings.gap_after(0.0 if since is None else began - since)
        if self._is_called(settings.polling_interval):
            if time.monotonic() - began < settings.busy_gap:
                self._busy_since = began if since is None else since
            rest = min(effort, settings.polling_interval)
            gap = settings.report_gap if since is None else busy_gap
            self._rest(began + max(gap, rest), began + max(busy_gap, rest))
        # Cleared before the driver looks: what ends from now on asks for another report.
        self._wake.clear()

    def _is_called(self, seconds: float) -> bool:
        """Wait so long for something to do or, as far as the driver notices, to report; tell whether there is."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._wake.wait(min(left, _GLANCE)) or self._has_news():
                return True
        return self._wake.is_set()

    def _has_news(self) -> bool:
        try:
            return bool(self._driver.has_news())
        except plugin_errors.CAUGHT as error:
            self._unnoticed.about(
                f"Backend {self.backend} cannot tell whether something has changed: {plugin_errors.described(error)}"
            )
            return False

    def _rest(self, until: float, until_if_busy: float) -> None:
        """Wait until that time, for as long as there are operations until the later one."""
        while not self._stopping.is_set():
            now = time.monotonic()
            if now >= until_if_busy or (now >= until and not self._operations.in_hand()):
                return
            self._stopping.wait(min(_STEP, until_if_busy - now))

    def _join(self) -> None:
        """Get an epoch and tell what is there. Everything that ran in an older epoch has ended before.

        So its effects are in the list and in every report of the new epoch. Nothing begins until the driver has made
        the list: what is in hand then was only queued.
        """
        with self._asked:
            asked = self._hellos_asked
            self._interrupt.clear()
            if self._stopping.is_set():
                return
        self._operations.hold()
        while not self._operations.drained(timeout=1.0):
            if self._stopping.is_set():
                return
        welcome = until_done(self._hello, self._complain, self._stopping, self._settings.pauses)
        if welcome is None:
            return
        self._looks.share(welcome.shared_storages)
        self._adopt(welcome.epoch)
        with self._asked:
            self._hellos_said = asked
        self._serve()
        listing = until_done(
            lambda: self._looks.listing(self._current(), with_figures=False),
            self._complain,
            self._interrupt,
            self._settings.pauses,
        )
        if listing is None:
            return
        self._operations.release()
        receipt = until_done(
            lambda: self._scheduler.listing(listing), self._complain, self._interrupt, self._settings.pauses
        )
        if receipt is None:
            return
        self._complaints.over(f"Backend {self.backend} has joined")
        if not receipt.accepted:
            self._taken_over(listing.epoch)

    def _adopt(self, number: int) -> None:
        if self._epoch is not None and self._epoch.number == number:
            LOG.info("Backend %s stays in epoch %d", self.backend, number)
            return
        self._outbox.clear()
        self._epoch = Epoch(number)
        self._operations.adopt(self._epoch)
        LOG.info("Backend %s begins epoch %d", self.backend, number)

    def _serve(self) -> None:
        with self._closing:
            if not self._serving and not self._stopping.is_set():
                # One thread, so that commands are taken in as they came.
                self._server.start(override_pool_size=1)
                self._serving = True

    def _hello(self) -> messages.Welcome:
        hello = messages.Hello(
            backend=self.backend,
            nonce=self._nonce,
            availability_zone=self._settings.availability_zone,
            driver=self._settings.driver_name,
        )
        return self._scheduler.hello(hello)

    def _tell_list(self) -> None:
        """Tell all volumes beside everything else. Joining does so by itself."""
        epoch = self._epoch
        if epoch is None or self._joining():
            return
        try:
            listing = self._looks.listing(epoch, with_figures=True)
        finally:
            # What the driver reported for it may have been news, and went nowhere.
            self._wake.set()
        if not self._scheduler.listing(listing).accepted:
            self._refused(epoch.number)

    def _stamp(self, storages: Collection[str]) -> Mapping[str, int]:
        query = messages.StampQuery(backend=self.backend, storage_ids=sorted(storages))
        try:
            stamps = self._scheduler.stamps(query)
        except errors.TonnageError as error:
            self._unstamped.about(f"Backend {self.backend} reports without stamps of its storages: {error.message}")
            return {}
        self._unstamped.over(f"Backend {self.backend} has stamps of its storages again")
        return stamps

    def _report(self) -> float:
        """Send one report and return how many seconds the look took.

        If that fails there is none: silence is what shows a backend as down.
        """
        try:
            report = self._looks.report(self._current())
            self._scheduler.report(report)
        except errors.TonnageError as error:
            self._complaints.about(f"Backend {self.backend} could not report: {error.message}")
        except plugin_errors.CAUGHT as error:
            self._complaints.about(
                f"Backend {self.backend} could not report: {plugin_errors.described(error)}", with_traceback=True
            )
        else:
            self._complaints.over(f"Backend {self.backend} reports again")
            return report.age
        return 0.0

    def _current(self) -> Epoch:
        if self._epoch is None:
            raise RuntimeError("the backend has not joined")
        return self._epoch

    def _complain(self, error: BaseException | None) -> None:
        self._complaints.about(f"Backend {self.backend} cannot join yet and keeps trying: {error}")

    def _ended(self, outcome: messages.Outcome) -> None:
        self._outbox.put(outcome)
        self._wake.set()

    def _deliver(self, outcomes: Sequence[messages.Outcome]) -> None:
        """Send outcomes; raises if they have to be sent again, which is safe."""
        for outcome, receipt in zip(outcomes, self._scheduler.outcomes(outcomes), strict=True):
            if receipt.accepted:
                self._operations.acknowledge(outcome.claim_id)
            else:
                self._refused(outcome.epoch)

    def _joining(self) -> bool:
        with self._asked:
            return self._hellos_said < self._hellos_asked

    def _refused(self, epoch: int) -> None:
        """Look at why a scheduler did not accept what belongs to an epoch."""
        if epoch != self._current().number:
            return
        if self._joining():
            # The ledger may have given the next epoch already, which this process adopts in a moment.
            raise errors.Unavailable("the backend is saying hello again")
        self._taken_over(epoch)

    def _taken_over(self, epoch: int) -> None:
        self._fail(
            f"backend {self.backend}: epoch {epoch} is over, another process has introduced itself as this backend; "
            "no two agents may run backends of the same name, so this one stops serving it"
        )

    def _crashed(self, error: BaseException) -> None:
        LOG.error("Backend %s: a worker failed", self.backend, exc_info=error)
        self._fail(f"backend {self.backend} ends after an internal error ({type(error).__name__}); see the log")

    def _fail(self, message: str) -> None:
        """End the backend; the agent's own thread does it."""
        if self.failure is None and not self._stopping.is_set():
            self.failure = message
            LOG.error("%s", message)
            self._interrupt_all()

    def _interrupt_all(self) -> None:
        with self._asked:
            self._stopping.set()
            self._interrupt.set()
            self._asked.notify_all()
        self._wake.set()
        self._lister.stop()
        self._operations.stop()

    def _close(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            # It may hang in a call or in the driver; then it ends with the process.
            self._thread.join(min(_FLUSH_SECONDS, timeout))
        with self._closing:
            if self._closed.is_set():
                return
            if self._serving:
                self._server.stop()
                self._server.wait()
            drained = self._operations.drained(max(0.0, deadline - time.monotonic()))
            if self.failure is None:
                # Those that a worker has not put there yet, and at once those that wait for their next attempt.
                for outcome in self._operations.unacknowledged():
                    self._outbox.put(outcome)
                self._outbox.flush(min(_FLUSH_SECONDS, max(0.0, deadline - time.monotonic())))
            self._outbox.close()
            self._operations.close()
            if drained:
                self._lock.release()
            else:
                LOG.warning(
                    "Backend %s: operations still run after %g s; it stays locked until this process ends",
                    self.backend,
                    timeout,
                )
            LOG.info("Backend %s has stopped", self.backend)
            self._closed.set()
