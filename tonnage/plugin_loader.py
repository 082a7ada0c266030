# SPDX-License-Identifier: Apache-2.0
"""The loader of plug-ins: it turns the name of an entry point in the configuration into an object."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from oslo_config import cfg

from tonnage import installation
from tonnage.capacity import errors, plugin_errors
from tonnage.plugin import Plugin

PluginT = TypeVar("PluginT", bound=Plugin)


@dataclass(frozen=True, slots=True)
class PluginLoader(Generic[PluginT]):
    """Loads the plug-ins of one base class, which have their entry points in one namespace.

    ``setting`` is the option that names a plug-in, as errors show it: ``scheduler_default_filters``.
    """

    namespace: str
    base_class: type[PluginT]

    def names(self) -> list[str]:
        """Return the names of the installed plug-ins."""
        return sorted({point.name for point in installation.entry_points(self.namespace)})

    def classes(self) -> list[type[PluginT]]:
        """Return the classes of all installed plug-ins. Raises the errors of their modules."""
        return [point.load() for point in installation.entry_points(self.namespace)]

    def load(self, setting: str, name: str, create: Callable[[type[PluginT]], PluginT]) -> PluginT:
        """Return the plug-in with this name, which ``create`` makes of its class.

        Raises :class:`~tonnage.capacity.errors.MissingPlugin` if it is not installed, and
        :class:`~tonnage.capacity.errors.ConfigurationError` if it is broken. The ConfigurationError of a ``create``
        that refuses the value of an option passes through.
        """
        return self.create(setting, name, lambda: create(self._find_class(setting, name)))

    def create(self, setting: str, name: str, create: Callable[[], PluginT]) -> PluginT:
        """Return the plug-in that ``create`` makes. Raises ConfigurationError as :meth:`load`."""
        try:
            return create()
        except errors.ConfigurationError:
            raise
        except plugin_errors.CAUGHT as error:
            raise broken(self.namespace, setting, name, plugin_errors.described(error)) from error

    def _find_class(self, setting: str, name: str) -> type[PluginT]:
        plugin_class: type[PluginT] = find(self.namespace, setting, name, self._mismatch)
        return plugin_class

    def _mismatch(self, plugin: object) -> str | None:
        base_class = self.base_class
        if isinstance(plugin, type) and issubclass(plugin, base_class):
            return None
        return f"it is not a subclass of {base_class.__module__}.{base_class.__qualname__}"


def find(namespace: str, setting: str, name: str, mismatch: Callable[[object], str | None]) -> Any:
    """Return the object of the entry point with a name.

    ``mismatch`` returns the reason why an object cannot be used, None if it can. Raises
    :class:`~tonnage.capacity.errors.MissingPlugin` if it is not installed, and
    :class:`~tonnage.capacity.errors.ConfigurationError` if it is broken.
    """
    try:
        plugins = installation.load_plugins(namespace, name)
    except plugin_errors.CAUGHT as error:
        raise broken(namespace, setting, name, plugin_errors.described(error)) from error
    if not plugins:
        raise errors.MissingPlugin(f"{setting} names '{name}', which is not installed; {known_names(namespace)}")
    if len(plugins) > 1:
        raise broken(namespace, setting, name, "several installed packages provide one of that name")
    if (cause := mismatch(plugins[0])) is not None:
        raise broken(namespace, setting, name, cause)
    return plugins[0]


def broken(namespace: str, setting: str, name: str, cause: str) -> errors.ConfigurationError:
    """Return the error about a plug-in that cannot be loaded."""
    return errors.ConfigurationError(
        f"{setting} names '{name}', which cannot be loaded: {cause}; {known_names(namespace)}"
    )


def known_names(namespace: str) -> str:
    """Return a phrase with the names of the installed plug-ins, for errors."""
    return f"known are {', '.join(sorted({point.name for point in installation.entry_points(namespace)}))}"


def mutable_options(options: Iterable[cfg.Opt]) -> list[cfg.Opt]:
    """Return copies of options that are mutable: a plug-in is created again with their changed values."""
    copies = [copy.copy(option) for option in options]
    for option in copies:
        option.mutable = True
    return copies
