# SPDX-License-Identifier: Apache-2.0
"""Options that all processes share: the host, the message bus, and oslo.messaging's own."""

import socket

import oslo_messaging.opts
from oslo_config import cfg

from tonnage.capacity import number_bounds

#: The exchange of all processes of one installation.
EXCHANGE = "tonnage"

OPTIONS = (
    cfg.HostDomainOpt(
        "host",
        default=socket.gethostname(),
        sample_default="<name of this machine>",
        help="First part of the backends' full names, before the sign @. Two machines that reach the same storage may "
        "share one, if no backend runs on both at the same time.",
    ),
    cfg.StrOpt(
        "state_path",
        default="/var/lib/tonnage",
        help="Folder for the files of an agent on this machine: its lock files, in $state_path/locks.",
    ),
    cfg.StrOpt(
        "storage_availability_zone",
        default="nova",
        help="Availability zone of this service, and of backends that set no backend_availability_zone.",
    ),
    cfg.IntOpt(
        "rpc_message_ttl",
        default=60,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds after which the message bus drops a command that its agent did not fetch. Schedulers send "
        "commands again for as long as they are wanted, so a short time loses nothing. (Calls, which wait for an "
        "answer, are dropped after rpc_response_timeout.)",
    ),
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register these options and those of oslo.messaging that belong to no driver."""
    oslo_messaging.set_transport_defaults(control_exchange=EXCHANGE)
    conf.register_opts(OPTIONS)
    for group, options in oslo_messaging.opts.list_opts():
        if group is None:
            conf.register_opts(options)


def register_with_drivers(conf: cfg.ConfigOpts) -> None:
    """Register these options and all of oslo.messaging; those of a driver are otherwise registered by a transport."""
    register(conf)
    for group, options in oslo_messaging.opts.list_opts():
        conf.register_opts(options, group)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [("DEFAULT", list(OPTIONS))]
