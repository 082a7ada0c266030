# SPDX-License-Identifier: Apache-2.0
"""Options of the publisher."""

from oslo_config import cfg

from tonnage.extensions.kubernetes import options

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "publisher_namespace",
        help="Namespace that tonnage-publisher writes CSIStorageCapacity objects to. Unset, it writes none.",
    ),
    cfg.FloatOpt(
        "publisher_interval",
        default=10.0,
        min=0.1,
        help="Seconds between two rounds of tonnage-publisher.",
    ),
    cfg.FloatOpt(
        "publisher_lifetime",
        default=180.0,
        min=1.0,
        help="Seconds after an agent's last report for which its figures are used for clusters. Set it longer than "
        "the agents' backend_stats_polling_interval.",
    ),
    cfg.StrOpt(
        "publisher_state_file",
        help="File that tonnage-publisher writes at its start and after each round, for probes: ok after a round "
        "without an error, otherwise the reason. Unset, it writes none.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register these options and the options of the connection to the cluster."""
    options.register(conf)
    conf.register_opts(OPTIONS, options.GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return these options and those of the extender by section."""
    return [*options.list_opts(), (options.GROUP, OPTIONS)]
