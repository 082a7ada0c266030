# SPDX-License-Identifier: Apache-2.0
"""What counts as silence. Agents, which have no database, read it as well, so nothing of one is imported here."""

from oslo_config import cfg

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt(
        "service_down_time",
        default=60,
        min=1,
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
