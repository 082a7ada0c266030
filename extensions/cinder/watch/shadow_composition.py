# SPDX-License-Identifier: Apache-2.0
"""The construction of a shadow from its configuration."""

import contextlib
import os
import urllib.parse

import oslo_messaging
from oslo_config import cfg
from oslo_utils import strutils

from tonnage.capacity import errors
from tonnage.extensions.cinder.decoding.cinder_rows import CinderRows
from tonnage.extensions.cinder.quota.quota_usage import Rules as QuotaRules
from tonnage.extensions.cinder.watch.bus_tap import BusTap
from tonnage.extensions.cinder.watch.quota_counters import QuotaCounters
from tonnage.extensions.cinder.watch.shadow import Settings, Shadow
from tonnage.extensions.cinder.watch.shadow_record import ShadowRecord
from tonnage.ledger.db import database
from tonnage.scheduler.configuration import settings as scheduler_settings
from tonnage.scheduler.requests.pool_selection import Rules

_MIB = 2**20

#: The form of the bus's URL.
_BUS = "rabbit://user:password@host:5672/"


def build(conf: cfg.ConfigOpts, own: database.Database, cleanup: contextlib.ExitStack) -> Shadow:
    """Return a shadow with its record in ``own``; ``cleanup`` closes its other connections.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable options.
    """
    options = conf.cinder_shadow
    for name, form in (("transport_url", _BUS), ("cinder_connection", "mysql+pymysql://user:password@host/cinder")):
        if not options[name]:
            raise errors.ConfigurationError(f"option [cinder_shadow] {name} is not set: expected {form}")
    if options.tls_ca_file and not os.access(options.tls_ca_file, os.R_OK):
        raise errors.ConfigurationError(
            f"option [cinder_shadow] tls_ca_file: {options.tls_ca_file} cannot be read; expected a file "
            "that this account may read"
        )
    cinder = database.Database(
        database.create_engine(options.cinder_connection, name="option [cinder_shadow] cinder_connection"), 2
    )
    cleanup.callback(cinder.close)
    rules = scheduler_settings.reloadable(conf)
    return Shadow(
        BusTap(
            addresses(conf, options.transport_url),
            options.control_exchange,
            options.queue_messages,
            options.queue_mib * _MIB,
            {"ca_certs": options.tls_ca_file} if options.tls_ca_file else None,
        ),
        CinderRows(cinder),
        QuotaCounters(
            cinder,
            QuotaRules(options.quota_reservation_lifetime, not options.no_snapshot_gb_quota),
            options.quota_poll_interval,
        ),
        ShadowRecord(own),
        Settings(
            rules=Rules(rules.filters, rules.weighers, rules.calculation),
            default_ratio=rules.default_ratio,
            poll_interval=options.poll_interval,
            full_poll_interval=options.full_poll_interval,
            service_down_time=options.service_down_time,
            stale_after=options.stale_after,
            keep_days=options.keep_days,
        ),
    )


def addresses(conf: cfg.ConfigOpts, transport_url: str) -> list[str]:
    """Return the addresses of a broker's nodes in kombu's form, from a URL in the form of oslo.messaging.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a URL that names no RabbitMQ.
    """
    try:
        parsed = oslo_messaging.TransportURL.parse(conf, transport_url)
    except (oslo_messaging.InvalidTransportURL, ValueError) as error:
        raise errors.ConfigurationError(f"option [cinder_shadow] transport_url: {error}; expected {_BUS}") from None
    if parsed.transport not in ("rabbit", "amqp") or not parsed.hosts:
        raise errors.ConfigurationError(
            f"option [cinder_shadow] transport_url names a bus of the kind {parsed.transport!r}: expected {_BUS}"
        )
    if strutils.bool_from_string(parsed.query.get("ssl")) and not conf.cinder_shadow.tls_ca_file:
        raise errors.ConfigurationError(
            "option [cinder_shadow] transport_url has the parameter ssl, which has no effect here: set tls_ca_file in "
            "[cinder_shadow] to the certificate of the broker's authority, and the bus uses TLS"
        )
    vhost = urllib.parse.quote(parsed.virtual_host or "/", safe="")
    return [
        f"amqp://{urllib.parse.quote(host.username or 'guest', safe='')}:"
        f"{urllib.parse.quote(host.password or 'guest', safe='')}@{host.hostname}:{host.port or 5672}/{vhost}"
        for host in parsed.hosts
    ]
