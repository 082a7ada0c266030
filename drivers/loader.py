# SPDX-License-Identifier: Apache-2.0
"""The loader of storage drivers: it turns a section of the configuration into a driver."""

import copy

from oslo_config import cfg

from tonnage import installation
from tonnage.capacity import errors, plugin_errors
from tonnage.drivers import options
from tonnage.drivers.base import Driver

NAMESPACE = "tonnage.drivers"


def load(backend: str, section: str, conf: cfg.ConfigOpts) -> Driver:
    """Return the driver that ``volume_driver`` names in the section, configured by the section.

    ``backend`` is the full name ``host@backend``. Raises :class:`~tonnage.capacity.errors.ConfigurationError` where the
    driver is unknown or broken, or where the section does not suit it.
    """
    name = options.Section(conf, section, options.BACKEND_OPTS).volume_driver
    if not name:
        raise errors.ConfigurationError(
            f"[{section}] sets no volume_driver; each enabled backend needs a section with one of: {_installed_text()}"
        )
    try:
        found = installation.load_plugins(NAMESPACE, name)
    except plugin_errors.CAUGHT as error:  # a plugin may fail in any way
        raise errors.ConfigurationError(
            f"[{section}] volume_driver = {name}: the driver cannot be loaded: {plugin_errors.described(error)}; "
            f"known are: {_installed_text()}"
        ) from error
    if not found:
        raise errors.MissingPlugin(
            f"[{section}] volume_driver = {name}: there is no such driver; known are: {_installed_text()}"
        )
    plugin = found[0]
    if not (isinstance(plugin, type) and issubclass(plugin, Driver)):
        raise errors.ConfigurationError(
            f"[{section}] volume_driver = {name}: {plugin!r} is no subclass of tonnage.drivers.base.Driver; "
            f"known are: {_installed_text()}"
        )
    return build(plugin, backend, section, conf)


def build(plugin: type[Driver], backend: str, section: str, conf: cfg.ConfigOpts) -> Driver:
    """Return a driver of the given class, configured by the section; the class needs no entry point.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` where the section does not suit the driver.
    """
    section_values = options.Section(conf, section, [*options.BACKEND_OPTS, *plugin.options])
    section_values.auto_ratio_option = plugin.auto_ratio_option
    try:
        driver = plugin(backend, section_values)
    except errors.TonnageError:
        raise
    except plugin_errors.CAUGHT as error:  # a plugin may fail in any way
        raise errors.ConfigurationError(
            f"[{section}] driver {plugin.__name__} cannot be set up: {plugin_errors.described(error)}"
        ) from error
    options.contradictions(section_values, plugin.__name__, plugin.supports_auto_ratio, options.default_ratio(conf))
    options.unclear_nodes(section_values)
    options.classless_provisioner(section_values)
    _refuse_unknown_pools(section_values, conf)
    return driver


def installed_drivers() -> list[str]:
    """Return the names of the installed drivers."""
    return sorted({point.name for point in installation.entry_points(NAMESPACE)})


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options of a backend's section, with those of all installed drivers, for the sample configuration.

    They are mutable: a backend restarts by itself after a change of its section.
    """
    group = cfg.OptGroup("backend", help="One section like this for each name in enabled_backends.")
    listed_options: list[cfg.Opt] = []
    of_drivers = [option for point in installation.entry_points(NAMESPACE) for option in point.load().options]
    for option in (*options.BACKEND_OPTS, *of_drivers):
        listed = copy.copy(option)
        listed.mutable = True
        if listed not in listed_options:
            listed_options.append(listed)
    return [(group, listed_options)]


def _refuse_unknown_pools(section_values: options.Section, conf: cfg.ConfigOpts) -> None:
    """Raise ConfigurationError for a section of a pool that does not exist.

    Such a section is a typing mistake, and its limits would have no effect.
    """
    prefix = f"{section_values.section_name}:"
    for section in conf.list_all_sections():
        if section.startswith(prefix) and section.removeprefix(prefix) not in section_values.pools:
            pools = ", ".join(section_values.pools) or "no pools with sections of their own"
            raise errors.ConfigurationError(
                f"[{section}] is for a pool that backend [{section_values.section_name}] does not have; it has: {pools}"
            )


def _installed_text() -> str:
    return ", ".join(installed_drivers()) or "none"
