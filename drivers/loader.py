# SPDX-License-Identifier: Apache-2.0
"""The loader of storage drivers: it turns a section of the configuration into a driver."""

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.drivers import options
from tonnage.drivers.base import Driver
from tonnage.plugin_loader import PluginLoader, mutable_options

DRIVERS: PluginLoader[Driver] = PluginLoader("tonnage.drivers", Driver)  # type: ignore[type-abstract]


def load(backend: str, section: str, conf: cfg.ConfigOpts) -> Driver:
    """Return the driver that ``volume_driver`` names in the section, configured by the section.

    ``backend`` is the full name ``host@backend``. Raises :class:`~tonnage.capacity.errors.ConfigurationError` where the
    driver is unknown or broken, or where the section does not suit it.
    """
    name = options.Section(conf, section, options.BACKEND_OPTS).volume_driver
    if not name:
        raise errors.ConfigurationError(
            f"[{section}] sets no volume_driver; each enabled backend needs a section with one of: "
            f"{', '.join(DRIVERS.names())}"
        )
    return DRIVERS.load(_setting(section), name, lambda driver_class: _create(driver_class, backend, section, conf))


def build(driver_class: type[Driver], backend: str, section: str, conf: cfg.ConfigOpts) -> Driver:
    """Return a driver of the given class, configured by the section; the class needs no entry point.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` where the section does not suit the driver.
    """
    return DRIVERS.create(
        _setting(section), driver_class.__name__, lambda: _create(driver_class, backend, section, conf)
    )


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options of a backend's section, with those of all installed drivers, for the sample configuration.

    They are mutable: a backend restarts by itself after a change of its section.
    """
    group = cfg.OptGroup("backend", help="One section like this for each name in enabled_backends.")
    driver_options = [option for driver_class in DRIVERS.classes() for option in driver_class.options]
    listed: list[cfg.Opt] = []
    for option in mutable_options([*options.BACKEND_OPTS, *driver_options]):
        if option not in listed:
            listed.append(option)
    return [(group, listed)]


def _create(driver_class: type[Driver], backend: str, section: str, conf: cfg.ConfigOpts) -> Driver:
    section_values = options.Section(conf, section, [*options.BACKEND_OPTS, *driver_class.options])
    section_values.auto_ratio_option = driver_class.auto_ratio_option
    driver = driver_class(backend, section_values)
    default_ratio = options.default_ratio(conf)
    options.contradictions(section_values, driver_class.__name__, driver_class.supports_auto_ratio, default_ratio)
    options.unclear_nodes(section_values)
    options.classless_provisioner(section_values)
    _refuse_unknown_pools(section_values, conf)
    return driver


def _setting(section: str) -> str:
    return f"[{section}] volume_driver"


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
