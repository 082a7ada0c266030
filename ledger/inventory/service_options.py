# SPDX-License-Identifier: Apache-2.0
"""The limit of silence after which a process counts as down.

Agents, which have no database, use the option as well, so this module imports no database code.
"""

from oslo_config import cfg

from tonnage.capacity import number_bounds

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt(
        "service_down_time",
        default=60,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds of silence after which a scheduler or a backend counts as down. No volume is placed on a backend "
        "that is down. A report is a backend's only sign of life: three times backend_stats_polling_interval is right, "
        "and more where a driver takes long to report.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this module."""
    conf.register_opts(OPTIONS)


def options() -> list[tuple[None, list[cfg.Opt]]]:
    """Return the options of this module, which are in ``[DEFAULT]``."""
    return [(None, OPTIONS)]
