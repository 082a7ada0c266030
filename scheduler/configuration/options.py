# SPDX-License-Identifier: Apache-2.0
"""Options of the scheduler daemon, under the names that Cinder's users know."""

from oslo_config import cfg

from tonnage.capacity import errors, number_bounds
from tonnage.capacity.arithmetic import DEFAULT_RATIO
from tonnage.capacity.over_subscription import parse_ratio

OPTIONS = [
    cfg.StrOpt(
        "max_over_subscription_ratio",
        default=f"{DEFAULT_RATIO:g}",
        mutable=True,
        help="Over-subscription ratio of pools that report none: a number of at least 1, or 'auto'. It has to be the "
        "same for all schedulers: one that differs from those that are up does not start, and a running one changes it "
        "only together with them.",
    ),
    cfg.IntOpt(
        "scheduler_max_attempts",
        default=3,
        min=1,
        help="How many pools are tried for a volume before it is put in error.",
    ),
    cfg.IntOpt(
        "scheduler_batch_size",
        default=64,
        min=1,
        help="How many requests that arrived together are decided in one transaction.",
    ),
    cfg.IntOpt(
        "claim_lease",
        default=60,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds after which a command that an agent has neither finished nor named in a report is sent to it "
        "again. The agent runs it at most once. A create or migration moves on to another pool when its backend has "
        "been down for so long; its claim stays counted until the backend's agent is back and has cleaned up.",
    ),
    cfg.IntOpt(
        "drain_concurrency",
        default=4,
        min=1,
        help="How many volumes are moved at a time, in all, from backends that are being drained.",
    ),
]


def default_ratio(value: str) -> float | str:
    """Return the value of ``max_over_subscription_ratio``: a number of at least 1, or ``auto``.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for anything else.
    """
    try:
        return parse_ratio(value)
    except ValueError as error:
        raise errors.ConfigurationError(f"option max_over_subscription_ratio: {error}") from None


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [("DEFAULT", list(OPTIONS))]
