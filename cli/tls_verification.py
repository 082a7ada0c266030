# SPDX-License-Identifier: Apache-2.0
"""Warnings of connections to other hosts without verification of the server, so that another can pose as it."""

import ipaddress
import logging
from collections.abc import Iterator

import oslo_messaging
import sqlalchemy as sa
from oslo_config import cfg

LOG = logging.getLogger(__name__)

#: Values of libpq's sslmode with which the certificate of the server is verified.
_VERIFIED_MODES = ("verify-ca", "verify-full")


def warn(conf: cfg.ConfigOpts) -> None:
    """Log a warning for each connection without verification. Call it after the process has registered its options."""
    for line in find(conf):
        LOG.warning("%s", line)


def find(conf: cfg.ConfigOpts) -> list[str]:
    """Return a sentence for each connection without verification, with the option to change."""
    database = conf.database.connection if "database" in conf else None
    return [*_of_database(database), *_of_bus(conf)]


def _of_database(connection: str | None) -> Iterator[str]:
    url = sa.make_url(connection) if connection else None
    if url is None or url.get_backend_name() == "sqlite":
        return
    hosts = url.query.get("host", ()) if url.host is None else (url.host,)
    listed = [host for host_list in ([hosts] if isinstance(hosts, str) else hosts) for host in host_list.split(",")]
    # A host of libpq's list may have a port.
    remote = [name for host in listed if _is_remote(name := host.partition(":")[0] if host.count(":") == 1 else host)]
    if not remote:
        return
    if url.get_backend_name() == "postgresql":
        if url.query.get("sslmode") not in _VERIFIED_MODES:
            yield (
                f"[database] connection: the certificate of {remote[0]} is not verified: add sslmode=verify-full and "
                "sslrootcert=FILE to the URL"
            )
    elif "ssl_ca" not in url.query and "ssl_capath" not in url.query:
        yield f"[database] connection: the certificate of {remote[0]} is not verified: add ssl_ca=FILE to the URL"


def _of_bus(conf: cfg.ConfigOpts) -> Iterator[str]:
    if "oslo_messaging_rabbit" not in conf:  # the process has no connection to the bus
        return
    url = oslo_messaging.TransportURL.parse(conf)
    remote = [host.hostname for host in url.hosts if host.hostname and _is_remote(host.hostname)]
    if not remote or not url.transport.startswith("rabbit"):
        return
    rabbit = conf.oslo_messaging_rabbit
    if not rabbit.ssl or not rabbit.ssl_ca_file:
        yield (
            f"[DEFAULT] transport_url: the certificate of {remote[0]} is not verified: set ssl and ssl_ca_file in "
            "[oslo_messaging_rabbit]"
        )
    elif len(url.hosts) > 1:
        # oslo.messaging tells its libraries the name of the host only if the URL has a single host.
        yield (
            "[DEFAULT] transport_url: with several hosts the certificate of the message bus is verified, and its host "
            "name is not: use a certificate authority that signs certificates of the message bus alone"
        )


def _is_remote(host: str) -> bool:
    """Return whether a host is not this machine; a path is the folder of a Unix socket."""
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return False
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return True
