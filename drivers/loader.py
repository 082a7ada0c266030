# SPDX-License-Identifier: Apache-2.0
"""From a section of the configuration to a driver."""

from importlib import metadata

import stevedore.driver
import stevedore.exception
from oslo_config import cfg

from tonnage.capacity import errors, plugin_errors
from tonnage.drivers import options
from tonnage.drivers.base import Driver

NAMESPACE = "tonnage.drivers"


def load(backend: str, section: str, conf: cfg.ConfigOpts) -> Driver:
    """Return the driver that ``volume_driver`` names in the section, configured by it.

    ``backend`` is the full name ``host@backend``. Raises :class:`~tonnage.capacity.errors.ConfigurationError` where the
    driver is unknown or broken, or where the section cannot work with it.
    """
    name = options.Section(conf, section, options.BACKEND_OPTS).volume_driver
    if not name:
        raise errors.ConfigurationError(
            f"[{section}] sets no volume_driver; each enabled backend needs a section with one of: {_listed()}"
        )
    try:
        plugin = stevedore.driver.DriverManager[type[Driver]](
            NAMESPACE, name, on_missing_entrypoints_callback=None
        ).driver
    except stevedore.exception.NoMatches:
        raise errors.ConfigurationError(
            f"[{section}] volume_driver = {name}: there is no such driver; known are: {_listed()}"
        ) from None
    except plugin_errors.CAUGHT as error:  # a plugin may fail in any way
        raise errors.ConfigurationError(
            f"[{section}] volume_driver = {name}: the driver cannot be loaded: {plugin_errors.described(error)}; "
            f"known are: {_listed()}"
        ) from error
    if not (isinstance(plugin, type) and issubclass(plugin, Driver)):
        raise errors.ConfigurationError(
            f"[{section}] volume_driver = {name}: {plugin!r} is no subclass of tonnage.drivers.base.Driver; "
            f"known are: {_listed()}"
        )
    return build(plugin, backend, section, conf)


def build(plugin: type[Driver], backend: str, section: str, conf: cfg.ConfigOpts) -> Driver:
    """Return a driver of the given class, configured by the section; it needs no entry point.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` where the section cannot work with it.
    """
    values = options.Section(conf, section, [*options.BACKEND_OPTS, *plugin.options])
    values.auto_ratio_option = plugin.auto_ratio_option
    try:
        driver = plugin(backend, values)
    except errors.TonnageError:
        raise
    except plugin_errors.CAUGHT as error:  # a plugin may fail in any way
        raise errors.ConfigurationError(
            f"[{section}] driver {plugin.__name__} cannot be set up: {plugin_errors.described(error)}"
        ) from error
    options.contradictions(values, plugin.__name__, plugin.supports_auto_ratio, options.default_ratio(conf))
    options.unclear_nodes(values)
    options.classless_provisioner(values)
    _refuse_unknown_pools(values, conf)
    return driver


def known() -> list[str]:
    """Return the names of the drivers that are installed."""
    return sorted({point.name for point in metadata.entry_points(group=NAMESPACE)})


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options of a backend's section with those of all drivers that are installed, for the sample config."""
    group = cfg.OptGroup("backend", help="One section like this for each name in enabled_backends.")
    found = list(options.BACKEND_OPTS)
    for point in sorted(metadata.entry_points(group=NAMESPACE), key=lambda point: point.name):
        found += [option for option in point.load().options if option not in found]
    return [(group, found)]


def _refuse_unknown_pools(values: options.Section, conf: cfg.ConfigOpts) -> None:
    """A section for a pool that does not exist is a typing mistake: its limits would count for nothing."""
    prefix = f"{values.section_name}:"
    for section in conf.list_all_sections():
        if section.startswith(prefix) and section.removeprefix(prefix) not in values.pools:
            pools = ", ".join(values.pools) or "no pools with sections of their own"
            raise errors.ConfigurationError(
                f"[{section}] is for a pool that backend [{values.section_name}] does not have; it has: {pools}"
            )


def _listed() -> str:
    return ", ".join(known()) or "none"
