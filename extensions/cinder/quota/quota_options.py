# SPDX-License-Identifier: Apache-2.0
"""Options of the quota driver in Cinder's configuration, in the group ``[tonnage]``."""

from oslo_config import cfg

GROUP = cfg.OptGroup("tonnage", title="Tonnage in Cinder")

OPTIONS: list[cfg.Opt] = [
    cfg.FloatOpt(
        "quota_reservation_lifetime",
        default=60.0,
        min=10.0,
        max=86400.0,
        help="Seconds for which a reservation of quota counts whose operation has no row yet that could tell its end: "
        "what a service reserves and then dies is free after this time. A request that stopped for more than half of "
        "it before it made its row fails.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, group=GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options for a sample of Cinder's configuration."""
    return [(GROUP, OPTIONS)]
