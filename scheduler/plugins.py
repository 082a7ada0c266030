# SPDX-License-Identifier: Apache-2.0
"""Loads the filters and weighers that the configuration names."""

import copy
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, TypeVar

from oslo_config import cfg

from tonnage import installation
from tonnage.capacity import errors, plugin_errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.base import Filter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.rpc import option_errors
from tonnage.scheduler.decisions.builtin_filters import LedgerFilter
from tonnage.weighers import selection
from tonnage.weighers.base import Weigher
from tonnage.weighers.chain import LARGEST_MULTIPLIER, WeigherChain

FILTERS = "tonnage.filters"
WEIGHERS = "tonnage.weighers"

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

PluginT = TypeVar("PluginT", Filter, Weigher)


def load_filters(conf: cfg.ConfigOpts) -> FilterChain:
    """Return the enabled filters, followed by the limits of the ledger unless CapacityFilter is among them.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a name that is unknown or cannot be loaded.
    """
    conf.register_opts(OPTIONS)
    filters: Iterable[Filter] = _load(conf, FILTERS, "scheduler_default_filters", Filter)  # type: ignore[type-abstract]
    chain, calculation = list(filters), _calculation(conf)
    # A subclass of CapacityFilter may be less strict.
    if not any(type(each) is CapacityFilter for each in chain):
        chain.append(LedgerFilter(SimpleNamespace(over_provisioning_calculation=calculation)))
    return FilterChain(chain, calculation)


def load_weighers(conf: cfg.ConfigOpts) -> WeigherChain:
    """Return the enabled weighers.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a name that is unknown or cannot be loaded, and for
    a multiplier that is no finite number or a huge one, or for an unknown weight handler.
    """
    conf.register_opts(OPTIONS)
    weighers: list[Weigher] = []
    for weigher in _load(conf, WEIGHERS, "scheduler_default_weighers", Weigher):  # type: ignore[type-abstract]
        weighers.append(weigher)
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
    return WeigherChain(weighers, selection.named(_read(conf, "scheduler_weight_handler")))


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Return the options above and those of every installed filter and weigher, for the sample configuration."""
    groups: dict[str | None, list[cfg.Opt]] = {None: list(OPTIONS)}
    for namespace in (FILTERS, WEIGHERS):
        for point in installation.entry_points(namespace):
            plugin = point.load()
            for option in _options(plugin):
                listed = groups.setdefault(plugin.options_group, [])
                if option not in listed:
                    listed.append(option)
    return list(groups.items())


def _load(conf: cfg.ConfigOpts, namespace: str, option: str, kind: type[PluginT]) -> Iterator[PluginT]:
    """Yield one instance of each plug-in that the option names, in its order."""
    for name in dict.fromkeys(_read(conf, option)):
        try:
            found = installation.load_plugins(namespace, name)
        except plugin_errors.CAUGHT as error:
            raise _unusable(option, name, plugin_errors.described(error), namespace) from error
        if not found:
            raise errors.MissingPlugin(f"{option} names '{name}', which is not installed; {_known(namespace)}")
        if len(found) > 1:
            raise _unusable(option, name, "several installed packages provide one of that name", namespace)
        [plugin] = found
        if not (isinstance(plugin, type) and issubclass(plugin, kind)):
            raise _unusable(option, name, f"it is not a subclass of {kind.__module__}.{kind.__qualname__}", namespace)
        try:
            instance = plugin(_values(conf, plugin))
            instance.name = name
        except errors.ConfigurationError:
            raise
        except plugin_errors.CAUGHT as error:
            raise _unusable(option, name, plugin_errors.described(error), namespace) from error
        yield instance


def _values(conf: cfg.ConfigOpts, plugin: type[Filter] | type[Weigher]) -> SimpleNamespace:
    """Return the values of the plug-in's own options and of the calculation, which all plug-ins share."""
    group, options = plugin.options_group, _options(plugin)
    conf.register_opts(options, group=group)
    values: dict[str, Any] = {opt.dest: _read(conf, opt.dest, group) for opt in options}
    return SimpleNamespace(over_provisioning_calculation=_calculation(conf), **values)


def _options(plugin: type[Filter] | type[Weigher]) -> list[cfg.Opt]:
    """Return the options of a plug-in as mutable ones: the plug-in is made again with changed values."""
    options = [copy.copy(option) for option in plugin.options]
    for option in options:
        option.mutable = True
    return options


def _calculation(conf: cfg.ConfigOpts) -> Calculation:
    return Calculation(_read(conf, "over_provisioning_calculation"))


def _read(conf: cfg.ConfigOpts, option: str, group: str | None = None) -> Any:
    try:
        return conf[option] if group is None else conf[group][option]
    except (cfg.ConfigSourceValueError, cfg.RequiredOptError) as error:
        raise errors.ConfigurationError(option_errors.complaint(conf, option, group, error)) from None


def _unusable(option: str, name: str, cause: str, namespace: str) -> errors.ConfigurationError:
    return errors.ConfigurationError(f"{option} names '{name}', which cannot be loaded: {cause}; {_known(namespace)}")


def _known(namespace: str) -> str:
    return f"known are {', '.join(sorted({point.name for point in installation.entry_points(namespace)}))}"
