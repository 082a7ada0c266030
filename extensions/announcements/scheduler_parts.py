# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in a scheduler: alerts are written with reports, and sent by threads."""

from collections.abc import Callable
from functools import partial

from oslo_config import cfg

from tonnage.extensions.announcements import announcer
from tonnage.extensions.announcements.capacity_alerts import CapacityAlerts
from tonnage.extensions.announcements.event_announcements import EventAnnouncements
from tonnage.scheduler.extension_parts import SchedulerContext, SchedulerParts


def build(conf: cfg.ConfigOpts, context: SchedulerContext) -> SchedulerParts:
    """Return the parts.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable drivers, addresses or thresholds.
    """
    sender = announcer.build(conf, context.database)
    alerts = CapacityAlerts(context.hosts, sender)

    def reload(conf: cfg.ConfigOpts) -> Callable[[], None]:
        return partial(alerts.change, announcer.load_config(conf))

    return SchedulerParts(
        report_observers=[alerts],
        event_observers=[EventAnnouncements(sender)],
        purges=[sender.purge],
        background=[sender],
        reloads=[reload],
    )
