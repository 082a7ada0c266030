# SPDX-License-Identifier: Apache-2.0
"""Options of quotas, under the names that Cinder's users know."""

import collections
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from oslo_config import cfg

from tonnage.quotas.external_usage import NO_EXTERNAL_USAGE, ExternalUsage
from tonnage.quotas.limits import UNLIMITED, Resource

GROUP = cfg.OptGroup("quota", title="How usage is counted")

#: Options for the limits that apply where none has been set through the API.
_DEFAULTS = {
    Resource.VOLUMES: ("quota_volumes", 10, "volumes"),
    Resource.GIGABYTES: ("quota_gigabytes", 1000, "GiB of volumes"),
    Resource.SNAPSHOTS: ("quota_snapshots", 10, "snapshots, which clients show and Tonnage has none of,"),
    Resource.GROUPS: ("quota_groups", 10, "groups"),
    Resource.BACKUPS: ("quota_backups", 10, "backups, which clients show and Tonnage has none of,"),
    Resource.BACKUP_GIGABYTES: ("quota_backup_gigabytes", 1000, "GiB of backups, which Tonnage has none of,"),
}

OPTIONS = [
    *(
        cfg.IntOpt(
            name,
            default=default,
            min=UNLIMITED,
            mutable=True,
            help=f"How many {unit} a project may have; -1 is no limit. A limit of the quota class 'default' or of the "
            "project, set through the API, wins over this. It has to be the same for the API and all schedulers.",
        )
        for name, default, unit in _DEFAULTS.values()
    ),
    cfg.IntOpt(
        "per_volume_size_limit",
        default=UNLIMITED,
        min=UNLIMITED,
        mutable=True,
        help="Largest volume that may be made or grown to, in GiB; -1 is no limit.",
    ),
]


class Source(enum.StrEnum):
    """The source of usage figures for decisions."""

    COUNTERS = "counters"
    LEDGER = "ledger"
    PLACEMENT = "placement"


QUOTA_OPTIONS = [
    cfg.StrOpt(
        "usage_source",
        default=Source.COUNTERS.value,
        choices=[
            (
                Source.COUNTERS.value,
                "counters, set to the sums of the volumes each minute and before a refusal",
            ),
            (Source.LEDGER.value, "the volumes, counted for each request that a limit is set for"),
            (
                Source.PLACEMENT.value,
                "OpenStack Placement, to which all pools and volumes are written, for gigabytes; the section "
                "[placement] says how to reach it",
            ),
        ],
        help="The source of the usage of a project that has a limit. It has to be the same for the API and all "
        "schedulers. Between counters and ledger only the work differs, for projects with very many volumes.",
    ),
    cfg.BoolOpt(
        "count_usage_from_placement",
        default=False,
        help="The same as usage_source = placement, under Nova's name.",
    ),
]

#: Seconds for which a counter is trusted after a recount. Errors in a counter last no longer.
COUNTERS_LAST = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The default limits, and the number of seconds for which counters are trusted after a recount.

    ``external_usage`` is the source of usage outside the ledger's volumes. With ``placed_only`` a volume counts for
    gigabytes only while it is in a pool or being created.
    """

    defaults: Mapping[Resource, int] = field(default_factory=dict)
    counter_lifetime: float = COUNTERS_LAST
    placed_only: bool = False
    external_usage: ExternalUsage = NO_EXTERNAL_USAGE


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this module."""
    conf.register_opts(OPTIONS)
    conf.register_opts(QUOTA_OPTIONS, GROUP.name)


def source(conf: cfg.ConfigOpts) -> Source:
    """Return the configured source of usage figures."""
    return Source.PLACEMENT if conf.quota.count_usage_from_placement else Source(conf.quota.usage_source)


def from_conf(conf: cfg.ConfigOpts) -> Settings:
    """Return the settings of the configuration. Its limits change when the configuration is reloaded."""
    defaults = collections.ChainMap(_limits(conf))

    def change(conf: cfg.ConfigOpts, changed: object) -> None:
        # All values change at once.
        defaults.maps[0] = _limits(conf)

    conf.register_mutate_hook(change)
    return Settings(defaults, counter_lifetime=0.0 if source(conf) is Source.LEDGER else COUNTERS_LAST)


def _limits(conf: cfg.ConfigOpts) -> dict[Resource, int]:
    limits = {resource: int(conf[name]) for resource, (name, _, _) in _DEFAULTS.items()}
    return limits | {Resource.PER_VOLUME_GIGABYTES: conf.per_volume_size_limit}


def list_opts() -> list[tuple[str | cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [("DEFAULT", list(OPTIONS)), (GROUP, list(QUOTA_OPTIONS))]
