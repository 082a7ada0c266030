# SPDX-License-Identifier: Apache-2.0
"""The thread that audits the reports and listings of drivers.

Callers only leave a report or listing here. The last report of a backend replaces those before it, and there is a pause
between two rounds, so that neither many reports nor long ones take time from decisions. When a thousand agents report
within a round, the memory has room for a part of their reports, and the others are audited the next time they come.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from tonnage.capacity import errors
from tonnage.ledger.db.db_errors import log_level
from tonnage.rpc.clients.command_sender import AgentMessages
from tonnage.rpc.messages import Listing
from tonnage.scheduler.observers.driver_audit import AuditedReport, Compared, DriverAudit
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds between two rounds, and between two reads of the findings of other schedulers.
_PAUSE = 1.0
_REFRESH = 10.0

#: Most pools in the reports that wait for a round, and most volumes and pools in the listings. One message may have
#: more. A pool takes some 2 kB.
_MOST_ITEMS = 50_000

#: A backend whose figures are doubtful is asked for another listing after ``_WAIT`` seconds. The interval doubles up to
#: ``_LONGEST_WAIT``, because listings cannot clear every doubt: a volume may be lost, for example. If a finding is
#: unconfirmed or may be repaired, the next request follows ``_SOON`` seconds after a listing, and this doubles too.
_WAIT = 30.0
_LONGEST_WAIT = 3600.0
_SOON = 3.0


Message = TypeVar("Message", bound=AuditedReport | Listing)


class _Backlog(Generic[Message]):
    """The messages that wait for a round: the last of each backend, with the backend's id, while there is room.

    ``size`` returns the number of items in a message.
    """

    def __init__(self, size: Callable[[Message], int], most_items: int) -> None:
        self._size = size
        self._most_items = most_items
        self._messages: dict[str, tuple[int, Message]] = {}
        self._items = 0

    def put(self, backend_id: int, message: Message) -> None:
        """Add a message, in the place of an earlier one of its backend; drop it if it does not fit."""
        earlier = self._messages.pop(message.backend, None)
        self._items -= 0 if earlier is None else self._size(earlier[1])
        size = self._size(message)
        if not self._messages or self._items + size <= self._most_items:
            self._messages[message.backend] = backend_id, message
            self._items += size

    def take(self) -> Collection[tuple[int, Message]]:
        """Remove all messages, and return them."""
        messages, self._messages, self._items = self._messages, {}, 0
        return messages.values()


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

    def __init__(
        self,
        driver_audit: DriverAudit,
        agents: AgentMessages,
        clock: Callable[[], float],
        most_items: int = _MOST_ITEMS,
    ) -> None:
        self._driver_audit = driver_audit
        self._agents = agents
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: _Backlog[AuditedReport] = _Backlog(lambda report: len(report.pools), most_items)
        self._listings: _Backlog[Listing] = _Backlog(
            lambda listing: len(listing.volumes) + len(listing.audit_snapshots), most_items
        )
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

    def report(self, backend_id: int, message: AuditedReport) -> None:
        """Have an applied report audited."""
        with self._lock:
            self._reports.put(backend_id, message)
        self._worker.wake()

    def listing(self, backend_id: int, message: Listing) -> None:
        """Have a listing audited."""
        with self._lock:
            self._listings.put(backend_id, message)
        self._worker.wake()

    def work(self) -> None:
        """Audit the reports and listings since the last round."""
        with self._lock:
            reports = self._reports.take()
            listings = self._listings.take()
        now = self._clock()
        if listings or now >= self._refresh_due:
            self._driver_audit.refresh()
            self._refresh_due = now + _REFRESH
        for backend_id, report in reports:
            with _errors_isolated(report.backend):
                self._driver_audit.inspect(backend_id, report)
        for backend_id, listing in listings:
            if (request := self._requests.get(listing.backend)) is not None:
                request.answered = now
            with _errors_isolated(listing.backend):
                self._look_again(listing.backend, self._driver_audit.compare(backend_id, listing), now)
        for name in [name for name, due in self._again.items() if due <= now]:
            del self._again[name]
            self._agents.list_now(name)
        if reports:
            self._ask({backend_id: report.backend for backend_id, report in reports}, now)

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
