# SPDX-License-Identifier: Apache-2.0
"""Loads the filters and weighers that the configuration names."""

import functools
from types import SimpleNamespace
from typing import Any, TypeVar

from oslo_config import cfg

from tonnage import installation
from tonnage.capacity import errors, plugin_errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.base import Filter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.plugin import SchedulerPlugin
from tonnage.plugin_loader import PluginLoader, mutable_options
from tonnage.rpc import option_errors
from tonnage.scheduler.configuration.builtin_filters import LedgerFilter
from tonnage.weighers import selection
from tonnage.weighers.base import Weigher
from tonnage.weighers.chain import LARGEST_MULTIPLIER, WeigherChain

FILTERS: PluginLoader[Filter] = PluginLoader("tonnage.filters", Filter)  # type: ignore[type-abstract]
WEIGHERS: PluginLoader[Weigher] = PluginLoader("tonnage.weighers", Weigher)  # type: ignore[type-abstract]

OPTIONS = [
    cfg.StrOpt(
        "over_provisioning_calculation",
        default=Calculation.CINDER.value,
        mutable=True,
        choices=[
            (
                Calculation.CINDER.value,
                "Compares the provisioned capacity with total, and the size with the free capacity",
            ),
            (Calculation.STANDARD.value, "Compares the provisioned capacity with total less the reserve"),
        ],
        help="How the room for thin volumes is calculated. It has to be the same for all "
        "schedulers, as max_over_subscription_ratio.",
    ),
    cfg.ListOpt(
        "scheduler_default_filters",
        default=[
            "AvailabilityZoneFilter",
            "CapacityFilter",
            "CapabilitiesFilter",
            "SameBackendFilter",
            "DifferentBackendFilter",
        ],
        mutable=True,
        help="The filters that choose which pools a volume may go to, in this order.",
    ),
    cfg.ListOpt(
        "scheduler_default_weighers",
        default=["CapacityWeigher"],
        mutable=True,
        help="The weighers that rank the pools which the filters left.",
    ),
    cfg.StrOpt(
        "scheduler_weight_handler",
        default="OrderedHostWeightHandler",
        mutable=True,
        help="How a pool is chosen by its weights. OrderedHostWeightHandler: the one with the largest sum. "
        "StochasticHostWeightHandler: by lot, where each has a chance as large as its share of the weights. The name "
        "may have that of its Cinder module before it.",
    ),
]

PluginT = TypeVar("PluginT", bound=SchedulerPlugin)


def load_filters(conf: cfg.ConfigOpts) -> FilterChain:
    """Return the enabled filters, followed by the limits of the ledger unless CapacityFilter is among them.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a name that is unknown or cannot be loaded.
    """
    conf.register_opts(OPTIONS)
    filters, calculation = _load(conf, FILTERS, "scheduler_default_filters"), _calculation(conf)
    # A subclass of CapacityFilter may be less strict.
    if not any(type(plugin) is CapacityFilter for plugin in filters):
        filters.append(LedgerFilter(SimpleNamespace(over_provisioning_calculation=calculation)))
    return FilterChain(filters, calculation)


def load_weighers(conf: cfg.ConfigOpts) -> WeigherChain:
    """Return the enabled weighers.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a name that is unknown or cannot be loaded, for a
    multiplier that is not a finite number or a huge one, and for an unknown weight handler.
    """
    conf.register_opts(OPTIONS)
    weighers = _load(conf, WEIGHERS, "scheduler_default_weighers")
    for weigher in weighers:
        _check_multiplier(weigher)
    return WeigherChain(weighers, selection.named(_read(conf, "scheduler_weight_handler")))


def disabled_readers(conf: cfg.ConfigOpts) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the options that only installed filters and weighers read which ``conf`` does not enable.

    A key is the section and the name of an option, its value the name of such a plug-in and the option that enables it.
    A plug-in that cannot be loaded is left out.
    """
    readers: dict[tuple[str, str], tuple[str, str]] = {}
    read: set[tuple[str, str]] = set()
    for loader, setting in ((FILTERS, "scheduler_default_filters"), (WEIGHERS, "scheduler_default_weighers")):
        for point in installation.entry_points(loader.namespace):
            try:
                plugin_class: type[SchedulerPlugin] = point.load()
                keys = {(plugin_class.options_group or "DEFAULT", option.dest) for option in plugin_class.options}
            except plugin_errors.CAUGHT:
                continue
            if point.name in conf[setting]:
                read |= keys
            else:
                readers |= {key: (point.name, setting) for key in keys if key not in readers}
    return {key: reader for key, reader in readers.items() if key not in read}


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Return the options above and those of every installed filter and weigher, for the sample configuration."""
    groups: dict[str | None, list[cfg.Opt]] = {None: list(OPTIONS)}
    for plugin_class in (*FILTERS.classes(), *WEIGHERS.classes()):
        listed = groups.setdefault(plugin_class.options_group, [])
        for option in mutable_options(plugin_class.options):
            if option not in listed:
                listed.append(option)
    return list(groups.items())


def _load(conf: cfg.ConfigOpts, loader: PluginLoader[PluginT], option: str) -> list[PluginT]:
    """Return one instance of each plug-in that the option names, in its order."""
    names = dict.fromkeys(_read(conf, option))
    return [loader.load(option, name, functools.partial(_create, conf, name)) for name in names]


def _create(conf: cfg.ConfigOpts, name: str, plugin_class: type[PluginT]) -> PluginT:
    """Return an instance with the values of its own options and of the calculation, which all plug-ins share."""
    group, options = plugin_class.options_group, mutable_options(plugin_class.options)
    conf.register_opts(options, group=group)
    values: dict[str, Any] = {option.dest: _read(conf, option.dest, group) for option in options}
    plugin = plugin_class(SimpleNamespace(over_provisioning_calculation=_calculation(conf), **values))
    plugin.name = name
    return plugin


def _check_multiplier(weigher: Weigher) -> None:
    try:
        multiplier = float(weigher.multiplier)
    except plugin_errors.CAUGHT as error:
        raise errors.ConfigurationError(
            f"{weigher.name}: its weight multiplier cannot be read: {plugin_errors.described(error)}"
        ) from error
    if not abs(multiplier) <= LARGEST_MULTIPLIER:
        raise errors.ConfigurationError(
            f"{weigher.name}: its weight multiplier is {multiplier}; "
            f"set it to a number of at most {LARGEST_MULTIPLIER:g}"
        )


def _calculation(conf: cfg.ConfigOpts) -> Calculation:
    return Calculation(_read(conf, "over_provisioning_calculation"))


def _read(conf: cfg.ConfigOpts, option: str, group: str | None = None) -> Any:
    try:
        return conf[option] if group is None else conf[group][option]
    except (cfg.ConfigSourceValueError, cfg.RequiredOptError) as error:
        raise errors.ConfigurationError(option_errors.complaint(conf, option, group, error)) from None
