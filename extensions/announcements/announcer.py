# SPDX-License-Identifier: Apache-2.0
"""Announcer that a scheduler uses to send capacity notifications and alerts."""

import datetime
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg
from sqlalchemy import orm

from tonnage.extensions.announcements import alerts, notification_outbox, options
from tonnage.extensions.announcements.alerts import Alert
from tonnage.extensions.announcements.bus import Bus
from tonnage.extensions.announcements.payloads import ThresholdCrossing
from tonnage.extensions.announcements.sender import NotificationSender, Recipient
from tonnage.extensions.announcements.usage_sender import UsageReport, UsageSender
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Channel of the outbox for the drivers of oslo.messaging. Each alert has a channel of its own.
NOTIFICATIONS = "notifications"


@dataclass(frozen=True, slots=True)
class AnnouncerConfig:
    """The configuration of an announcer."""

    settings: options.Settings
    alerts: Sequence[Alert] = ()


@dataclass(frozen=True, slots=True)
class _BusRecipient:
    """The recipient of all messages, over the bus."""

    bus: Bus

    def send(self, message: notification_outbox.Message) -> None:
        self.bus.send(message.id, message.event_type, message.payload)


class Announcer:
    """Sends the figures of reports, and the crossings of thresholds by pools.

    Without any recipient it is not :attr:`enabled`. :meth:`reconfigure` replaces everything but the drivers of
    oslo.messaging in ``bus``.
    """

    def __init__(self, database: Database, config: AnnouncerConfig, bus: Bus | None) -> None:
        self._database = database
        self._host = config.settings.host
        self._bus = bus
        self._usage: UsageSender | None = None
        self._bus_senders: list[NotificationSender] = []
        if bus is not None:
            self._usage = UsageSender(bus, only_changes=config.settings.only_changes)
            self._bus_senders.append(self._new_sender(NOTIFICATIONS, _BusRecipient(bus)))
        self._alert_senders: list[NotificationSender] = []
        #: Senders of removed alerts whose threads have not ended yet.
        self._stopping: list[NotificationSender] = []
        self._started = False
        self.reconfigure(config)

    def reconfigure(self, config: AnnouncerConfig) -> None:
        """Apply another configuration. Call it on the thread that calls :meth:`put`."""
        self.thresholds = config.settings.thresholds
        self._retention_days = config.settings.retention_days
        if self._usage is not None:
            self._usage.only_changes = config.settings.only_changes
        before = {sender.channel: sender for sender in self._alert_senders}
        self._alert_senders = [self._sender_for(alert, before.pop(alert.channel, None)) for alert in config.alerts]
        for sender in before.values():
            sender.stop()
        self._stopping = [sender for sender in [*self._stopping, *before.values()] if not sender.ended]

    @property
    def enabled(self) -> bool:
        """Return whether there is a recipient."""
        return bool(self._senders())

    @property
    def sends_usage(self) -> bool:
        """Return whether the figures of reports are sent."""
        return self._usage is not None

    def start(self) -> None:
        """Start the sending threads."""
        self._started = True
        for thread in self._threads():
            thread.start()

    def stop(self) -> None:
        """Stop the threads. Another scheduler, or the next start, sends the rest of the outbox."""
        for thread in self._threads():
            thread.stop()
        for thread in [*self._threads(), *self._stopping]:
            thread.wait()
        if self._bus is not None:
            self._bus.close()

    def put(self, session: orm.Session, crossings: Iterable[ThresholdCrossing], reported_at: datetime.datetime) -> None:
        """Put threshold crossings into the outbox in this transaction."""
        messages = [(crossing.event_type, crossing.payload(reported_at, self.thresholds)) for crossing in crossings]
        notification_outbox.enqueue(session, self.channels(), messages)

    def put_event(self, session: orm.Session, event_type: str, payload: Mapping[str, Any], *, alert: bool) -> None:
        """Put an event of another extension into the outbox in this transaction: for the bus, or for alerts too."""
        channels = self.channels() if alert else [sender.channel for sender in self._bus_senders]
        if channels:
            notification_outbox.enqueue(session, channels, [(event_type, payload)])

    def wake(self) -> None:
        """Make the sending threads read the outbox now."""
        for sender in self._senders():
            sender.wake()

    def send_usage(self, report: UsageReport) -> None:
        """Queue the figures of a report for sending. Does not block."""
        if self._usage is not None:
            self._usage.put(report)

    def purge(self, session: orm.Session) -> int:
        """Delete messages that are too old, and messages for alerts that are no longer configured.

        Return their number.
        """
        deleted = notification_outbox.purge(session, self._retention_days, self.channels())
        for channel, number in deleted.items():
            LOG.warning("%d undelivered announcement(s) have been deleted (%s)", number, channel)
        return sum(deleted.values())

    def _sender_for(self, alert: Alert, before: NotificationSender | None) -> NotificationSender:
        """Return the sender of an alert's channel: the sender that it had ``before``, or a new one."""
        if before is not None:
            before.recipient = alert
            return before
        sender = self._new_sender(alert.channel, alert)
        if self._started:
            sender.start()
        return sender

    def _new_sender(self, channel: str, recipient: Recipient) -> NotificationSender:
        return NotificationSender(self._database, channel, self._host, recipient)

    def channels(self) -> list[str]:
        """Return the channels of all senders."""
        return [sender.channel for sender in self._senders()]

    def _senders(self) -> list[NotificationSender]:
        return [*self._alert_senders, *self._bus_senders]

    def _threads(self) -> list[NotificationSender | UsageSender]:
        return [*self._senders(), *([] if self._usage is None else [self._usage])]


def build(conf: cfg.ConfigOpts, database: Database) -> Announcer:
    """Return the configured announcer, not yet started.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable drivers or addresses.
    """
    config = load_config(conf)
    return Announcer(database, config, Bus(conf, config.settings) if config.settings.drivers else None)


def load_config(conf: cfg.ConfigOpts) -> AnnouncerConfig:
    """Return the announcer's configuration.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable thresholds or addresses of alerts.
    """
    settings = options.from_conf(conf)
    return AnnouncerConfig(settings, alerts.from_entries(settings.alert_urls))


def validate(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for unusable options. Opens no connections."""
    config = load_config(conf)
    if config.settings.drivers:
        Bus(conf, config.settings).close()
