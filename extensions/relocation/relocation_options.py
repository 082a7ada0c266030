# SPDX-License-Identifier: Apache-2.0
"""Options of plans for a cloud. Their limits are those of the section ``moves``."""

from oslo_config import cfg

GROUP = cfg.OptGroup("relocation", title="Plans of moves for an OpenStack cloud")

OPTIONS: list[cfg.Opt] = [
    cfg.FloatOpt("poll_interval", default=5.0, min=0.1, help="Seconds between two looks at the volumes that move."),
    cfg.FloatOpt(
        "report_interval",
        default=60.0,
        min=1.0,
        help="The option backend_stats_polling_interval in cinder.conf: seconds between two reports of a backend. A "
        "volume that has changed counts as in flight until the second report after it.",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options by section."""
    return [(GROUP, OPTIONS)]
