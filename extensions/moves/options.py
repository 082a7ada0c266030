# SPDX-License-Identifier: Apache-2.0
"""Options of plans that are carried out."""

from oslo_config import cfg

GROUP = cfg.OptGroup("moves", title="Plans of moves that are carried out")

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt(
        "moves_per_backend",
        default=2,
        min=1,
        help="Most moves of plans at a time from or to a backend. A plan may be started with another number, as with "
        "all limits of this section.",
    ),
    cfg.IntOpt("moves", default=8, min=1, help="Most moves of plans at a time."),
    cfg.IntOpt(
        "in_flight_gb",
        default=0,
        min=0,
        help="Most GiB that moves of plans copy at a time; a larger volume moves alone. 0: any number.",
    ),
    cfg.StrOpt(
        "hours",
        default="",
        sample_default="22-06",
        help="Hours of the day in which moves of plans begin, in the local time of the schedulers. Empty: all hours.",
    ),
    cfg.IntOpt("failures", default=3, min=1, help="A plan fails when so many of its moves have failed."),
    cfg.IntOpt(
        "no_progress_timeout",
        default=300,
        min=1,
        help="Seconds in which no move of a plan ran, after which it fails if its goal is not reached. Until then it "
        "is made anew now and then, because a volume that is in use may become free.",
    ),
    cfg.IntOpt(
        "retention_days",
        default=400,
        min=1,
        max=36500,
        help="Days after its end after which a plan is deleted, with its moves.",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options by section."""
    return [(GROUP, OPTIONS)]
