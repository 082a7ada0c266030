# SPDX-License-Identifier: Apache-2.0
"""The loader of plug-ins: it turns the name of an entry point in the configuration into an object."""

import copy
import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from oslo_config import cfg

from tonnage import installation
from tonnage.capacity import errors, plugin_errors
from tonnage.plugin import Plugin

PluginT = TypeVar("PluginT", bound=Plugin)

#: Namespaces of plug-ins that Cinder has too, and parts of the errors of plug-ins that were written for Cinder.
_NAMESPACES_OF_CINDER = ("tonnage.filters", "tonnage.weighers")
_SIGNS_OF_CINDER = ("No module named 'cinder", "abstract method", "not a subclass")
_ADVICE = "for a plug-in of Cinder see 'Coming from Cinder' in the guide of plug-ins, docs/plugin-guide.rst"

#: The least similarity of a name to the one that may be meant, from 0 to 1.
_SIMILARITY = 0.75


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
        raise errors.MissingPlugin(f"{setting} names '{name}', which is not installed; {known_names(namespace, name)}")
    if len(plugins) > 1:
        raise broken(namespace, setting, name, "several installed packages provide one of that name")
    if (cause := mismatch(plugins[0])) is not None:
        raise broken(namespace, setting, name, cause)
    return plugins[0]


def broken(namespace: str, setting: str, name: str, cause: str) -> errors.ConfigurationError:
    """Return the error about a plug-in that cannot be loaded."""
    if namespace in _NAMESPACES_OF_CINDER and any(sign in cause for sign in _SIGNS_OF_CINDER):
        cause = f"{cause} ({_ADVICE})"
    return errors.ConfigurationError(
        f"{setting} names '{name}', which cannot be loaded: {cause}; {known_names(namespace, name)}"
    )


def known_names(namespace: str, name: str) -> str:
    """Return a phrase with the names of the installed plug-ins but ``name``, and the nearest of them, for errors."""
    others = sorted({point.name for point in installation.entry_points(namespace)} - {name})
    near = difflib.get_close_matches(name, others, 1, _SIMILARITY)
    return (f"known are {', '.join(others)}" if others else "no other is known") + (
        f"; did you mean {near[0]}?" if near else ""
    )


def mutable_options(options: Iterable[cfg.Opt]) -> list[cfg.Opt]:
    """Return copies of options that are mutable: a plug-in is created again with their changed values."""
    copies = [copy.copy(option) for option in options]
    for option in copies:
        option.mutable = True
    return copies
