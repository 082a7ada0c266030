# SPDX-License-Identifier: Apache-2.0
"""The thread that audits the reports and listings of drivers.

Callers only leave a report or listing here. The last report of a backend replaces those before it, and there is a pause
between two rounds, so that neither many reports nor long ones take time from decisions. Listings are few.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tonnage.capacity import errors
from tonnage.ledger.db.db_errors import log_level
from tonnage.rpc.clients.command_sender import AgentMessages
from tonnage.rpc.messages import BackendReport, Listing
from tonnage.scheduler.observers.driver_audit import Compared, DriverAudit
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds between two rounds, and between two reads of the findings of other schedulers.
_PAUSE = 1.0
_REFRESH = 10.0

#: A backend whose figures are doubtful is asked for another listing after ``_WAIT`` seconds. The interval doubles up to
#: ``_LONGEST_WAIT``, because listings cannot clear every doubt: a volume may be lost, for example. If a finding is
#: unconfirmed or may be repaired, the next request follows ``_SOON`` seconds after a listing, and this doubles too.
_WAIT = 30.0
_LONGEST_WAIT = 3600.0
_SOON = 3.0


@dataclass(slots=True)
class _ListingRequest:
    """The last request to a backend for a listing: its time, and the seconds until the next one.

    ``answered`` is the time of a listing since then, and ``soon`` the seconds from that listing to the next request.
    """

    requested_at: float
    wait: float = _WAIT
    answered: float | None = None
    soon: float = _SOON

    def repeat(self, now: float) -> None:
        """Note that the listing is requested again."""
        self.requested_at, self.answered = now, None


class AuditThread:
    """Audits reports and listings, and asks ``agents`` for listings. Thread-safe, except for :meth:`work`."""

    def __init__(self, driver_audit: DriverAudit, agents: AgentMessages, clock: Callable[[], float]) -> None:
        self._driver_audit = driver_audit
        self._agents = agents
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: dict[str, tuple[int, BackendReport]] = {}
        self._listings: dict[str, tuple[int, Listing]] = {}
        self._requests: dict[str, _ListingRequest] = {}
        # By backend with an unconfirmed finding, the time of the next request for a listing.
        self._again: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._refresh_due = clock()
        self._worker = Worker("auditing", self._audit_waiting, _REFRESH)

    @property
    def findings(self) -> Mapping[str, Mapping[str, str]]:
        """The findings of pools by full name: the figures that show them, by the definition that they break."""
        return self._driver_audit.findings

    def start(self) -> None:
        """Begin."""
        self._worker.start()

    def stop(self) -> None:
        """End; waiting reports and listings are dropped."""
        self._worker.stop()

    def report(self, backend_id: int, message: BackendReport) -> None:
        """Have an applied report audited."""
        with self._lock:
            self._reports[message.backend] = backend_id, message
        self._worker.wake()

    def listing(self, backend_id: int, message: Listing) -> None:
        """Have a listing audited."""
        with self._lock:
            self._listings[message.backend] = backend_id, message
        self._worker.wake()

    def work(self) -> None:
        """Audit the reports and listings since the last round."""
        with self._lock:
            reports, self._reports = self._reports, {}
            listings, self._listings = self._listings, {}
        now = self._clock()
        if listings or now >= self._refresh_due:
            self._driver_audit.refresh()
            self._refresh_due = now + _REFRESH
        for backend_id, report in reports.values():
            with _errors_isolated(report.backend):
                self._driver_audit.inspect(backend_id, report)
        for backend_id, listing in listings.values():
            if (request := self._requests.get(listing.backend)) is not None:
                request.answered = now
            with _errors_isolated(listing.backend):
                self._look_again(listing.backend, self._driver_audit.compare(backend_id, listing), now)
        for name in [name for name, due in self._again.items() if due <= now]:
            del self._again[name]
            self._agents.list_now(name)
        if reports:
            self._ask({backend_id: report.backend for backend_id, report in reports.values()}, now)

    def _look_again(self, name: str, compared: Compared, now: float) -> None:
        pause = self._pauses.pop(name, _SOON)
        if compared is Compared.NEEDS_SECOND_LISTING:
            self._again[name] = now + pause
            self._pauses[name] = min(2 * pause, _LONGEST_WAIT)

    def _ask(self, backends: Mapping[int, str], now: float) -> None:
        """Ask backends with doubtful figures for a listing, unless they were asked lately."""
        doubtful = self._driver_audit.doubtful(backends)
        for name in self._requests.keys() & set(backends.values()) - doubtful.keys():
            del self._requests[name]
        for name, soon in doubtful.items():
            request = self._requests.get(name)
            if request is None:
                self._requests[name] = _ListingRequest(now)
            elif soon and request.answered is not None and now >= request.answered + request.soon:
                request.repeat(now)
                request.soon = min(2 * request.soon, _LONGEST_WAIT)
            elif now >= request.requested_at + request.wait:
                request.repeat(now)
                request.wait = min(2 * request.wait, _LONGEST_WAIT)
            else:
                continue
            self._agents.list_now(name)

    def _audit_waiting(self) -> float | None:
        try:
            self.work()
        except errors.Unavailable as error:
            LOG.log(log_level(error), "The reports of drivers are not audited: %s", error.message)
        except Exception:
            LOG.exception("The reports of drivers could not be audited")
        self._worker.pause(_PAUSE)
        return _SOON if self._again else None


@contextlib.contextmanager
def _errors_isolated(backend: str) -> Iterator[None]:
    """Keep errors of a backend, which may have just been removed, from the others."""
    try:
        yield
    except errors.Unavailable:
        raise
    except Exception:
        LOG.exception("The reports of the driver of %s could not be audited", backend)
