# SPDX-License-Identifier: Apache-2.0
"""The loader of plug-ins: it turns the name of an entry point in the configuration into an object."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

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
            raise self._broken(setting, name, plugin_errors.described(error)) from error

    def _find_class(self, setting: str, name: str) -> type[PluginT]:
        plugins = installation.load_plugins(self.namespace, name)
        if not plugins:
            raise errors.MissingPlugin(f"{setting} names '{name}', which is not installed; {self._known_names()}")
        if len(plugins) > 1:
            raise self._broken(setting, name, "several installed packages provide one of that name")
        plugin_class, base_class = plugins[0], self.base_class
        if not (isinstance(plugin_class, type) and issubclass(plugin_class, base_class)):
            cause = f"it is not a subclass of {base_class.__module__}.{base_class.__qualname__}"
            raise self._broken(setting, name, cause)
        return plugin_class

    def _broken(self, setting: str, name: str, cause: str) -> errors.ConfigurationError:
        return errors.ConfigurationError(
            f"{setting} names '{name}', which cannot be loaded: {cause}; {self._known_names()}"
        )

    def _known_names(self) -> str:
        return f"known are {', '.join(self.names())}"


def mutable_options(options: Iterable[cfg.Opt]) -> list[cfg.Opt]:
    """Return copies of options that are mutable: a plug-in is created again with their changed values."""
    copies = [copy.copy(option) for option in options]
    for option in copies:
        option.mutable = True
    return copies
