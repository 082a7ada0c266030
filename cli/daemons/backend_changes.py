# SPDX-License-Identifier: Apache-2.0
"""Changes of ``enabled_backends`` and of the sections of backends, found when the files are read again."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from tonnage.agent import builder, options
from tonnage.cli import config_sections, option_names
from tonnage.cli.config_sections import Sections

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackendChanges:
    """The sections of the backends that are new, no longer enabled, or enabled as before with other options.

    ``conf`` is the configuration with the changes, and ``sections`` the text of its files.
    """

    conf: cfg.ConfigOpts
    sections: Sections
    added: Sequence[str]
    removed: Sequence[str]
    changed: Sequence[str]

    def log(self) -> None:
        """Log the backends that begin, end and restart."""
        texts = {
            "is enabled and starts": self.added,
            "is no longer enabled: it ends its operations and stops": self.removed,
            "restarts with changed options": self.changed,
        }
        for text, sections in texts.items():
            for section in sections:
                LOG.info("Backend %s %s", builder.full_name(self.conf, section), text)


class BackendConfiguration:
    """The configuration with which the backends of a process run, as it was read last.

    It is apart from the configuration of the process, in which libraries change the defaults of options. ``read``
    returns the files' current content. ``common`` are the options of ``[DEFAULT]`` whose change restarts every backend,
    None for all options that are not of a backend.
    """

    def __init__(self, read: Callable[[], cfg.ConfigOpts], common: Collection[str] | None = None) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` if the backends cannot run with it."""
        self.conf = read()
        self._read = read
        self._common = common
        self._sections = config_sections.of_all(self.conf)
        self.enabled = builder.validate(self.conf)

    def changes(self) -> BackendChanges:
        """Read the files again and compare them with the configuration in use.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` and ``oslo_config.cfg.Error`` for unusable files.
        """
        fresh = self._read()
        now, sections = options.backends(fresh), config_sections.of_all(fresh)
        kept = [section for section in now if section in self.enabled]
        before, after = (self._common_values(conf, {*self.enabled, *now}) for conf in (self.conf, fresh))
        if all(before[name] == after[name] for name in before.keys() & after.keys()):
            changed = [section for section in kept if _own(self._sections, section) != _own(sections, section)]
        else:
            changed = kept
        return BackendChanges(
            fresh,
            sections,
            added=[section for section in now if section not in self.enabled],
            removed=[section for section in self.enabled if section not in now],
            changed=changed,
        )

    def usable_changes(self) -> BackendChanges:
        """Return the changes after a check that the new and the changed backends can be built.

        Raises the errors of :meth:`changes`, and :class:`~tonnage.capacity.errors.ConfigurationError` for a backend.
        """
        changes = self.changes()
        builder.check(changes.conf, [*changes.added, *changes.changed])
        return changes

    def adopt(self, changes: BackendChanges) -> None:
        """Log the changes, and compare the files with this configuration from now on."""
        changes.log()
        self.conf, self._sections = changes.conf, changes.sections
        self.enabled = options.backends(changes.conf)

    def _common_values(self, conf: cfg.ConfigOpts, backends: Collection[str]) -> dict[tuple[str, str], Any]:
        """Return the values of the options that all backends share, by section and name."""
        if self._common is not None:
            return {("DEFAULT", name): conf[name] for name in self._common}
        values: dict[tuple[str, str], Any] = {}
        for name in conf:
            value = conf[name]
            if not isinstance(value, cfg.ConfigOpts.GroupAttr):
                values["DEFAULT", name] = value
            elif name.partition(":")[0] not in backends:
                values.update({(name, option): value[option] for option in value})
        values.pop(("DEFAULT", "enabled_backends"), None)
        return values


def _own(sections: Sections, backend: str) -> Sections:
    """Return the section of a backend and those of its pools."""
    own_name = option_names.section_name(backend)
    return {
        name: options
        for name, options in sections.items()
        if option_names.section_name(name.partition(":")[0]) == own_name
    }
