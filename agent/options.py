# SPDX-License-Identifier: Apache-2.0
"""Options of the agent, under the names that Cinder's users know where they have one."""

import re
from dataclasses import dataclass, field

from oslo_config import cfg

from tonnage.agent.backoff import BackOff
from tonnage.capacity import errors, number_bounds

OPTIONS = (
    cfg.ListOpt(
        "enabled_backends",
        default=[],
        mutable=True,
        help="Names of the backends that this agent runs. Each has a section of its name with at least volume_driver.",
    ),
    cfg.IntOpt(
        "backend_stats_polling_interval",
        default=20,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        mutable=True,
        help="Seconds between two reports of a backend. Besides, it reports at start and after each change. Keep it "
        "well below the schedulers' service_down_time.",
    ),
    cfg.IntOpt(
        "listing_interval",
        default=300,
        min=0,
        max=number_bounds.LONGEST_WAIT,
        mutable=True,
        help="Seconds between two lists of all volumes on a backend, in which the schedulers find volumes that are "
        "not in the ledger, and miss those that are only there. 0: only at start and when a scheduler asks. The first "
        "interval is up to twice as long, at random, so that not all agents list at once.",
    ),
    cfg.IntOpt(
        "backend_threads",
        default=8,
        min=1,
        mutable=True,
        help="How many operations a backend runs at the same time. Those on the same volume always follow each other.",
    ),
)

#: The options of ``[DEFAULT]`` that a backend reads at its start.
COMMON = (
    "backend_stats_polling_interval",
    "listing_interval",
    "backend_threads",
)

#: Seconds that a stopping backend gives its running operations unless told otherwise; less than what cotyledon gives
#: the process.
STOP_SECONDS = 50.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one backend. Times are in seconds."""

    availability_zone: str
    driver_name: str
    lock_folder: str
    polling_interval: float = 60.0
    listing_interval: float = 300.0
    #: A change after a quiet time is reported at once, further changes together after this time. Each report is work
    #: for every scheduler.
    report_gap: float = 0.4
    #: The same while operations run or follow each other closely.
    busy_gap: float = 1.0
    #: The most to which that grows on a backend that stays busy. Unreported capacity counts as in flight meanwhile.
    longest_gap: float = 3.0
    #: See :class:`tonnage.agent.snapshots.StorageSnapshots`.
    quiet_wait: float = 1.0
    quiet_look: float = 0.3
    threads: int = 8
    #: The time for which acknowledged outcomes are kept, see :class:`tonnage.agent.operations.Operations`.
    record_seconds: float = 600.0
    #: The part of the time to stop in which outcomes wait for a scheduler. None is lost: the next process lists the
    #: volumes.
    flush_seconds: float = 5.0
    backoff: BackOff = field(default_factory=BackOff)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of the agent."""
    conf.register_opts(OPTIONS)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [("DEFAULT", list(OPTIONS))]


def lock_folder(conf: cfg.ConfigOpts) -> str:
    """Return the folder of the lock files."""
    return f"{conf.state_path}/locks"


def backends(conf: cfg.ConfigOpts) -> list[str]:
    """Return the names of the enabled backends, which are the names of their sections.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if there is none, or one is not a name or named twice.
    """
    names: list[str] = conf.enabled_backends
    if not names:
        raise errors.ConfigurationError(
            "[DEFAULT] enabled_backends is empty; name at least one backend and give it a section of that name"
        )
    for name in names:
        if not _NAME.fullmatch(name):
            raise errors.ConfigurationError(
                f"[DEFAULT] enabled_backends: {name!r} is no name; use letters, digits, '_', '-' and '.'"
            )
        if names.count(name) > 1:
            raise errors.ConfigurationError(f"[DEFAULT] enabled_backends names {name!r} twice")
    by_section = {name.lower(): name for name in names}
    for name in names:
        if (other := by_section[name.lower()]) != name:
            raise errors.ConfigurationError(
                f"[DEFAULT] enabled_backends names {name!r} and {other!r}: their sections are the same one, because "
                "names of sections are compared without regard to case; give one of them another name"
            )
    return names
