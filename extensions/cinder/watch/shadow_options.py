# SPDX-License-Identifier: Apache-2.0
"""Options of the shadow. Its record is in ``[database] connection``; its rules are the scheduler's options."""

import pathlib

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.cinder.quota import quota_options

GROUP = "cinder_shadow"

OPTIONS = [
    cfg.StrOpt(
        "transport_url",
        secret=True,
        help="The message bus of Cinder, the same URL as in cinder.conf: rabbit://user:password@host:5672/. An account "
        "that may configure and read its own queues, whose names begin with tonnage-cinder-shadow, and read Cinder's "
        "exchanges is enough.",
    ),
    cfg.StrOpt(
        "cinder_connection",
        secret=True,
        help="SQLAlchemy URL of Cinder's database, mysql+pymysql://... or postgresql+psycopg://... An account that may "
        "only read the tables volumes and services, and for the drift of quotas some more, is enough.",
    ),
    cfg.StrOpt("control_exchange", default="openstack", help="The option of that name in cinder.conf."),
    cfg.StrOpt(
        "tls_ca_file", help="Certificate of the authority by which the broker is checked; with it the bus uses TLS."
    ),
    cfg.IntOpt(
        "queue_messages",
        default=20000,
        min=100,
        help="Most messages that the broker keeps for the shadow. Beyond it drops the oldest: a slow shadow misses "
        "messages, and Cinder notices nothing.",
    ),
    cfg.IntOpt("queue_mib", default=64, min=1, help="Most MiB that the broker keeps for the shadow."),
    cfg.FloatOpt("poll_interval", default=2.0, min=0.2, help="Seconds between two reads of changed rows of volumes."),
    cfg.FloatOpt("full_poll_interval", default=60.0, min=1.0, help="Seconds between two reads of all rows of volumes."),
    cfg.IntOpt(
        "service_down_time", default=60, min=1, help="The option of that name in cinder.conf: seconds after which a "
        "volume service without a heartbeat is down.",
    ),
    cfg.IntOpt(
        "stale_after", default=180, min=10, help="Seconds without a report after which a backend that is up is stale."
    ),
    cfg.FloatOpt(
        "quota_poll_interval", default=300.0, min=0.0, help="Seconds between two reads of the use of quotas, to find "
        "counters of Cinder that have drifted; 0: they are not watched.",
    ),
    cfg.BoolOpt("no_snapshot_gb_quota", default=False, help="The option of that name in cinder.conf."),
    cfg.FloatOpt(
        "quota_reservation_lifetime", default=60.0, min=10.0, help="The option of that name in cinder.conf, of the "
        "group [tonnage]: it counts if Cinder has Tonnage's quota driver.",
    ),
    cfg.IntOpt("keep_days", default=30, min=1, max=9999, help="Days to keep decisions and mended findings."),
]  # fmt: skip


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_group(_group())
    conf.register_opts(OPTIONS, GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [(_group(), OPTIONS)]


def of_cinder(file: pathlib.Path) -> cfg.ConfigOpts:
    """Return those options of a configuration of Cinder that tell how it counts use, and its database.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it cannot be read.
    """
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.BoolOpt("no_snapshot_gb_quota", default=False)])
    conf.register_opts([cfg.StrOpt("connection", secret=True)], "database")
    quota_options.register(conf)
    try:
        conf([], default_config_files=[str(file)], default_config_dirs=[])
    except cfg.Error as error:
        raise errors.ConfigurationError(f"{file}: {error}; expected the configuration of Cinder") from None
    return conf


def _group() -> cfg.OptGroup:
    return cfg.OptGroup(GROUP, title="The watcher beside Cinder's scheduler")
