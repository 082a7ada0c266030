# SPDX-License-Identifier: Apache-2.0
"""What a scheduler announces, and the threads that do so."""

import datetime
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from oslo_config import cfg
from sqlalchemy import orm

from tonnage.ledger.catalog import notification_outbox
from tonnage.ledger.db.database import Database
from tonnage.notifications import alerts, options
from tonnage.notifications.alerts import Alert
from tonnage.notifications.bus import Bus
from tonnage.notifications.payloads import Crossing
from tonnage.notifications.sender import Postman
from tonnage.notifications.usage_sender import Report, UsageSender

LOG = logging.getLogger(__name__)

#: The channel of the outbox that leads to the drivers of oslo.messaging; each alert has another.
NOTIFICATIONS = "notifications"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be announced, as a configuration says it."""

    settings: options.Settings
    addresses: Sequence[Alert] = ()


class Announcer:
    """Announces the figures of reports, and which pools begin or cease to hold more than they should.

    Where nobody is to be told anything it is not :attr:`needed`. The drivers of oslo.messaging, of ``bus``, stay those
    that it begins with; all else may :meth:`change`.
    """

    def __init__(self, database: Database, plan: Plan, bus: Bus | None) -> None:
        self._database = database
        self._host = plan.settings.host
        self._bus = bus
        self._usage: UsageSender | None = None
        self._notifications: list[Postman] = []
        if bus is not None:
            self._usage = UsageSender(bus.send, only_changes=plan.settings.only_changes)
            self._notifications.append(
                self._postman(NOTIFICATIONS, lambda message: bus.send(message.id, message.event_type, message.payload))
            )
        self._alerts: list[Postman] = []
        #: Those of addresses that were removed, until they have ended.
        self._ending: list[Postman] = []
        self._started = False
        self.change(plan)

    def change(self, plan: Plan) -> None:
        """Announce by another plan from now on. To be called by who calls :meth:`put`."""
        self.thresholds = plan.settings.thresholds
        self._retention_days = plan.settings.retention_days
        if self._usage is not None:
            self._usage.only_changes = plan.settings.only_changes
        before = {postman.channel: postman for postman in self._alerts}
        self._alerts = [self._leading_to(alert, before.pop(alert.channel, None)) for alert in plan.addresses]
        for postman in before.values():
            postman.stop()
        self._ending = [postman for postman in [*self._ending, *before.values()] if not postman.ended]

    @property
    def needed(self) -> bool:
        """Whether anybody is to be told anything."""
        return bool(self._postmen())

    @property
    def sends_usage(self) -> bool:
        """Whether the figures of reports are wanted."""
        return self._usage is not None

    def start(self) -> None:
        """Begin to send."""
        self._started = True
        for thread in self._threads():
            thread.start()

    def stop(self) -> None:
        """End. What waits in the outbox is sent by others or after the next start."""
        for thread in self._threads():
            thread.stop()
        for thread in [*self._threads(), *self._ending]:
            thread.wait()
        if self._bus is not None:
            self._bus.close()

    def put(self, session: orm.Session, crossings: Iterable[Crossing], reported_at: datetime.datetime) -> None:
        """Have crossings announced, should this transaction be committed."""
        messages = [(crossing.event_type, crossing.payload(reported_at, self.thresholds)) for crossing in crossings]
        notification_outbox.put(session, self._channels(), messages)

    def wake(self) -> None:
        """Look into the outbox now."""
        for postman in self._postmen():
            postman.wake()

    def report(self, report: Report) -> None:
        """Have the figures of a report announced. Takes no time."""
        if self._usage is not None:
            self._usage.put(report)

    def purge(self) -> None:
        """Drop what has waited too long, and what waits for addresses that are no longer in the configuration."""
        for channel, number in self._database.run(
            notification_outbox.purge, self._retention_days, self._channels()
        ).items():
            LOG.warning("%d announcement(s) that nobody has taken are gone (%s)", number, channel)

    def _leading_to(self, alert: Alert, before: Postman | None) -> Postman:
        """Return who sends what waits for an address: who has done so ``before``, or somebody new."""
        if before is not None:
            before.hand_to(alert.send)
            return before
        postman = self._postman(alert.channel, alert.send)
        if self._started:
            postman.start()
        return postman

    def _postman(self, channel: str, send: Callable[[notification_outbox.Message], None]) -> Postman:
        return Postman(self._database, channel, self._host, send)

    def _channels(self) -> list[str]:
        return [postman.channel for postman in self._postmen()]

    def _postmen(self) -> list[Postman]:
        return [*self._alerts, *self._notifications]

    def _threads(self) -> list[Postman | UsageSender]:
        return [*self._postmen(), *([] if self._usage is None else [self._usage])]


def build(conf: cfg.ConfigOpts, database: Database) -> Announcer:
    """Return what announces as configured, not yet started.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work.
    """
    wanted = plan(conf)
    return Announcer(database, wanted, Bus(conf, wanted.settings) if wanted.settings.drivers else None)


def plan(conf: cfg.ConfigOpts) -> Plan:
    """Return what the configuration says.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work.
    """
    settings = options.from_conf(conf)
    return Plan(settings, alerts.alerts(settings.alert_urls))


def validate(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work; connect to nothing."""
    wanted = plan(conf)
    if wanted.settings.drivers:
        Bus(conf, wanted.settings).close()
