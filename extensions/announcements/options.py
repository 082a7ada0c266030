# SPDX-License-Identifier: Apache-2.0
"""Options of announcements.

oslo.messaging's own options enable notifications on the message bus and set its address.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import oslo_messaging.opts
from oslo_config import cfg

from tonnage.capacity import errors

#: Section of oslo.messaging's options for notifications.
OSLO_GROUP = "oslo_messaging_notifications"

ALWAYS = "always"
CHANGED = "changed"

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "notify_capacity",
        default=ALWAYS,
        mutable=True,
        choices=[
            (ALWAYS, "with every report"),
            (CHANGED, "with reports that change them, and with the first one after a scheduler has started"),
        ],
        help="When capacity.pool and capacity.backend are sent. Nothing is sent unless [oslo_messaging_notifications] "
        "driver is set.",
    ),
    cfg.FloatOpt(
        "capacity_exceeded_percent",
        default=90.0,
        mutable=True,
        min=1,
        max=100,
        help="capacity.pool.exceeded is sent when more than this share of a pool's total capacity is in use, in "
        "percent; it is also sent when more is provisioned than the over-subscription ratio permits. With 100 only "
        "the latter counts.",
    ),
    cfg.FloatOpt(
        "capacity_exceeded_hysteresis",
        default=5.0,
        mutable=True,
        min=0,
        max=100,
        help="capacity.pool.recovered is sent when the share in use is by so many percentage points less than "
        "capacity_exceeded_percent, and the provisioned capacity by so many percent less than its limit. Has to be "
        "less than capacity_exceeded_percent.",
    ),
    cfg.MultiStrOpt(
        "capacity_alert_urls",
        default=[],
        mutable=True,
        secret=True,
        sample_default=["on-call=json://alerts.example.com/tonnage"],
        help="Where capacity.pool.exceeded and capacity.pool.recovered are sent beside the message bus: a URL of "
        "Apprise, such as a webhook, a mailbox or a chat. Needs the extra tonnage[alerts]. May be given several times. "
        "With a name before it, name=URL, what waits for an address is sent to the new one when the URL changes.",
    ),
    cfg.IntOpt(
        "capacity_announcement_retention",
        default=7,
        mutable=True,
        min=1,
        max=36500,
        help="Days after which capacity.pool.exceeded and capacity.pool.recovered are dropped where nobody takes them.",
    ),
]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of the use of a pool, in percent. The options describe them."""

    percent: float = 90.0
    hysteresis: float = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Values of the options.

    ``drivers`` are names of oslo.messaging's drivers. ``alert_urls`` contain secrets. Messages that cannot be sent are
    deleted after ``retention_days``.
    """

    host: str
    drivers: Sequence[str]
    only_changes: bool
    thresholds: Thresholds
    alert_urls: Sequence[str]
    retention_days: int = 7


def register_library_options(conf: cfg.ConfigOpts) -> None:
    """Register oslo.messaging's options for notifications."""
    for group, options in oslo_messaging.opts.list_opts():
        if group == OSLO_GROUP:
            conf.register_opts(options, OSLO_GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [("DEFAULT", list(OPTIONS))]


def from_conf(conf: cfg.ConfigOpts) -> Settings:
    """Return the values of the options.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if the hysteresis is not less than the threshold.
    """
    register_library_options(conf)
    percent, hysteresis = conf.capacity_exceeded_percent, conf.capacity_exceeded_hysteresis
    if hysteresis >= percent:
        raise errors.ConfigurationError(
            f"option capacity_exceeded_hysteresis is {hysteresis:g}: it has to be less than capacity_exceeded_percent, "
            f"which is {percent:g}, or no pool would ever recover"
        )
    return Settings(
        host=conf.host,
        drivers=tuple(dict.fromkeys(conf[OSLO_GROUP].driver)),
        only_changes=conf.notify_capacity == CHANGED,
        thresholds=Thresholds(percent, hysteresis),
        alert_urls=tuple(conf.capacity_alert_urls),
        retention_days=conf.capacity_announcement_retention,
    )
