# SPDX-License-Identifier: Apache-2.0
"""Options of the messages between the processes, and oslo.messaging's own."""

import oslo_messaging.opts
from oslo_config import cfg

#: All processes of one installation talk on this exchange.
EXCHANGE = "tonnage"

OPTIONS = (
    cfg.IntOpt(
        "rpc_message_ttl",
        default=60,
        min=1,
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


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [("DEFAULT", list(OPTIONS))]
