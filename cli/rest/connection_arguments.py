# SPDX-License-Identifier: Apache-2.0
"""The arguments of commands that name the REST API, and the address that they and the environment lead to."""

import argparse
import functools
import os
from typing import TYPE_CHECKING

from tonnage.cli import output

if TYPE_CHECKING:
    from oslo_config import cfg

#: The environment variable with the URL of the REST API.
VARIABLE = "TONNAGE_URL"

#: Where ``tonnage-standalone`` listens by default.
DEFAULT_URL = "http://127.0.0.1:8776"


def url(text: str) -> str:
    """Parse the URL of a REST API."""
    scheme, _, host = text.partition("://")
    if scheme not in ("http", "https") or not host:
        raise argparse.ArgumentTypeError(f"{text!r}: expected http://HOST:PORT")
    return text


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to a parser: ``url`` and ``os_cloud``."""
    group = parser.add_argument_group("the REST API")
    group.add_argument(
        "--url",
        type=url,
        metavar="http://HOST:PORT",
        help=f"ask the REST API that listens there (default: {VARIABLE}, or that of the configuration)",
    )
    group.add_argument(
        "--os-cloud",
        metavar="NAME",
        default=os.environ.get("OS_CLOUD") or None,
        help="entry of clouds.yaml for authentication, where the REST API needs it (default: OS_CLOUD, else the "
        "other OS_ variables that the command openstack knows)",
    )


def named_url(conf: "cfg.ConfigOpts", argument: str | None) -> str | None:
    """Return the URL that ``--url`` or, unless the command line names a configuration, the environment has.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a value of the environment that is no URL.
    """
    value = os.environ.get(VARIABLE)
    if argument is not None or not value or _is_named_on_the_command_line(conf):
        return argument
    try:
        return url(value)
    except argparse.ArgumentTypeError as error:
        from tonnage.capacity import errors

        raise errors.ConfigurationError(f"environment variable {VARIABLE}: {error}") from None


def api_url(conf: "cfg.ConfigOpts", argument: str | None) -> str:
    """Return the URL of the REST API: the named one, else that of the configuration, else :data:`DEFAULT_URL`."""
    url_or_none = named_url(conf, argument)
    if url_or_none is not None:
        return url_or_none
    if not (conf.config_file or conf.config_dir):
        return default_url()
    host = conf.osapi_volume_listen
    return f"http://{f'[{host}]' if ':' in host else host}:{conf.osapi_volume_listen_port}"


def ledger_url(conf: "cfg.ConfigOpts", argument: str | None) -> str | None:
    """Return the URL of the REST API for a command that shows the ledger, None if it reads the configured database."""
    url_or_none = named_url(conf, argument)
    if url_or_none is not None or conf.database.connection or conf.config_file or conf.config_dir:
        return url_or_none
    return default_url()


def names_bus(conf: "cfg.ConfigOpts") -> bool:
    """Return whether the configuration names a message bus: it is not the default."""
    origin = conf.get_location("transport_url")
    return origin is not None and origin.location.is_user_controlled


@functools.cache
def default_url() -> str:
    """Return :data:`DEFAULT_URL` and tell the user on standard error, once, that it is the destination."""
    output.print_error(
        f"tonnage: no configuration is named: asking {DEFAULT_URL}, where tonnage-standalone listens by default"
    )
    return DEFAULT_URL


def _is_named_on_the_command_line(conf: "cfg.ConfigOpts") -> bool:
    """Return whether ``--config-file`` or ``--config-dir`` names a configuration; others are found in usual folders."""
    locations = (conf.get_location(option) for option in ("config_file", "config_dir"))
    return any(location is not None and location.location.is_user_controlled for location in locations)
