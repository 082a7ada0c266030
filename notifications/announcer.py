# SPDX-License-Identifier: Apache-2.0
"""What a scheduler announces, and the threads that do so."""

import datetime
import logging
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_config import cfg
from sqlalchemy import orm

from tonnage.ledger import outbox
from tonnage.ledger.database import Database
from tonnage.notifications import alerts
from tonnage.notifications import options
from tonnage.notifications.alerts import Alert
from tonnage.notifications.bus import Bus
from tonnage.notifications.payloads import Crossing
from tonnage.notifications.postman import Postman
from tonnage.notifications.usage_sender import Report
from tonnage.notifications.usage_sender import UsageSender

LOG = logging.getLogger(__name__)

#: The channel of the outbox that leads to the drivers of oslo.messaging; each alert has another.
NOTIFICATIONS = "notifications"


class Announcer:
    """Announces the figures of reports, and which pools begin or cease to hold more than they should.

    Where nobody is to be told anything it is not :attr:`needed`.
    """

    def __init__(
        self, database: Database, settings: options.Settings, bus: Bus | None, addresses: Sequence[Alert] = ()
    ) -> None:
        self.thresholds = settings.thresholds
        self._database = database
        self._retention_days = settings.retention_days
        self._bus = bus
        self._usage: UsageSender | None = None
        self._postmen = [Postman(database, alert.channel, settings.host, alert.send) for alert in addresses]
        if bus is not None:
            self._usage = UsageSender(bus.send, only_changes=settings.only_changes)
            self._postmen.append(
                Postman(
                    database,
                    NOTIFICATIONS,
                    settings.host,
                    lambda message: bus.send(message.id, message.event_type, message.payload),
                )
            )

    @property
    def needed(self) -> bool:
        """Whether anybody is to be told anything."""
        return bool(self._postmen)

    @property
    def sends_usage(self) -> bool:
        """Whether the figures of reports are wanted."""
        return self._usage is not None

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads():
            thread.start()

    def stop(self) -> None:
        """End. What waits in the outbox is sent by others or after the next start."""
        for thread in self._threads():
            thread.stop()
        for thread in self._threads():
            thread.wait()
        if self._bus is not None:
            self._bus.close()

    def put(self, session: orm.Session, crossings: Iterable[Crossing], reported_at: datetime.datetime) -> None:
        """Have crossings announced, should this transaction be committed."""
        messages = [(crossing.event_type, crossing.payload(reported_at, self.thresholds)) for crossing in crossings]
        outbox.put(session, self._channels(), messages)

    def wake(self) -> None:
        """Look into the outbox now."""
        for postman in self._postmen:
            postman.wake()

    def report(self, report: Report) -> None:
        """Have the figures of a report announced. Takes no time."""
        if self._usage is not None:
            self._usage.put(report)

    def purge(self) -> None:
        """Drop what has waited too long, and what waits for addresses that are no longer in the configuration."""
        for channel, number in self._database.run(outbox.purge, self._retention_days, self._channels()).items():
            LOG.warning("%d announcement(s) that nobody has taken are gone (%s)", number, channel)

    def _channels(self) -> list[str]:
        return [postman.channel for postman in self._postmen]

    def _threads(self) -> list[Postman | UsageSender]:
        return [*self._postmen, *([] if self._usage is None else [self._usage])]


def build(conf: cfg.ConfigOpts, database: Database) -> Announcer:
    """Return what announces as configured, not yet started.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work.
    """
    settings = options.from_conf(conf)
    addresses = alerts.alerts(settings.alert_urls)
    return Announcer(database, settings, Bus(conf, settings) if settings.drivers else None, addresses)


def validate(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot work; connect to nothing."""
    settings = options.from_conf(conf)
    alerts.alerts(settings.alert_urls)
    if settings.drivers:
        Bus(conf, settings).close()
