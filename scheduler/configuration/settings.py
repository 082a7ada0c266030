# SPDX-License-Identifier: Apache-2.0
"""A scheduler's settings, read from the configuration once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.chain import FilterChain
from tonnage.ledger.inventory import service_options
from tonnage.metrics import options as metrics_options
from tonnage.quotas import options as quota_options
from tonnage.scheduler.configuration import options, plugins
from tonnage.weighers.chain import WeigherChain


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a scheduler. ``default_ratio`` is a number, or ``auto``; times are seconds.

    Without ``quotas`` there are only the limits that were set through the API.
    """

    host: str
    availability_zone: str
    calculation: Calculation
    default_ratio: float | str
    service_down_time: float
    max_attempts: int
    batch_size: int
    claim_lease: float
    drain_concurrency: int = 4
    hook_extensions: str = ""
    quotas: quota_options.Settings = field(default_factory=quota_options.Settings)


@dataclass(frozen=True, slots=True)
class ReloadableSettings:
    """The settings of decisions, which can change while a scheduler runs, all together.

    ``changes`` are functions that let extensions apply their settings; the decision thread calls them.
    """

    filters: FilterChain
    weighers: WeigherChain
    calculation: Calculation
    default_ratio: float | str
    changes: Sequence[Callable[[], None]] = ()


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of the scheduler; those of plug-ins are registered when the plug-ins are loaded."""
    enabled_extensions.register(conf)
    conf.register_opts(options.OPTIONS)
    conf.register_opts(plugins.OPTIONS)
    conf.register_opts(service_options.OPTIONS)
    quota_options.register(conf)
    metrics_options.register(conf)


def validate(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for options that keep a scheduler from starting."""
    from_conf(conf)
    reloadable(conf)
    enabled_extensions.check(conf)


def reloadable(conf: cfg.ConfigOpts) -> ReloadableSettings:
    """Return the settings that decisions depend on, with the plug-ins that the configuration names.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable options.
    """
    return ReloadableSettings(
        plugins.load_filters(conf),
        plugins.load_weighers(conf),
        Calculation(conf.over_provisioning_calculation),
        options.default_ratio(conf.max_over_subscription_ratio),
    )


def from_conf(conf: cfg.ConfigOpts) -> Settings:
    """Return the settings that the configuration holds.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a ratio that cannot be used.
    """
    return Settings(
        host=conf.host,
        availability_zone=conf.storage_availability_zone,
        calculation=Calculation(conf.over_provisioning_calculation),
        default_ratio=options.default_ratio(conf.max_over_subscription_ratio),
        service_down_time=conf.service_down_time,
        max_attempts=conf.scheduler_max_attempts,
        batch_size=conf.scheduler_batch_size,
        claim_lease=conf.claim_lease,
        drain_concurrency=conf.drain_concurrency,
        hook_extensions=enabled_extensions.with_transaction_hooks(conf),
        quotas=quota_options.from_conf(conf),
    )
