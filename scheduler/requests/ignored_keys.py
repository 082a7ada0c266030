# SPDX-License-Identifier: Apache-2.0
"""Hints and extra specs without effect: those of a filter that is not enabled, and those that no filter reads.

Block Storage has always accepted such requests, clients send hints that only some clouds know, and volume types have
keys for the drivers of one vendor. So they are not refused, but the log and explanations mention them.
"""

import logging
from collections.abc import Iterable, Mapping

from tonnage.capacity import type_specs
from tonnage.capacity.request import LOCAL_TO_INSTANCE, Request
from tonnage.capacity.topology import requirements
from tonnage.filters import affinity, capabilities, json_query, storage_class
from tonnage.filters.affinity import DifferentBackendFilter, SameBackendFilter
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.base import Filter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.instance_locality import InstanceLocalityFilter
from tonnage.filters.json_query import JsonFilter
from tonnage.filters.storage_class import StorageClassFilter
from tonnage.filters.topology import TopologyFilter

LOG = logging.getLogger(__name__)

_HINT_READERS: Mapping[str, type[Filter]] = {
    requirements.NODE: TopologyFilter,
    requirements.REQUIREMENTS: TopologyFilter,
    storage_class.HINT: StorageClassFilter,
    json_query.HINT: JsonFilter,
    LOCAL_TO_INSTANCE: InstanceLocalityFilter,
    affinity.SAME_HOST: SameBackendFilter,
    affinity.DIFFERENT_HOST: DifferentBackendFilter,
}


class IgnoredKeys:
    """The hints and extra specs that have no effect with these filters; a warning is logged once for each."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        enabled = tuple(filters)
        readers: set[type[Filter]] = {*_HINT_READERS.values(), AvailabilityZoneFilter, CapabilitiesFilter}
        self._missing = {reader for reader in readers if not any(isinstance(plugin, reader) for plugin in enabled)}
        self._logged: set[str] = set()

    def hints(self, hints: Mapping[str, object]) -> list[str]:
        """Return a sentence for each of these hints that has a value and no effect."""
        return [
            sentence
            for hint, value in hints.items()
            if value and (sentence := self._sentence(f"the hint {hint}", _HINT_READERS.get(hint)))
        ]

    def specs(self, extra_specs: Mapping[str, str]) -> list[str]:
        """Return a sentence for each of these extra specs that has no effect."""
        return [
            sentence
            for key in extra_specs
            if key not in type_specs.LIMITS
            and (sentence := self._sentence(f"the extra spec {key}", _reader_of_spec(key)))
        ]

    def tell(self, request: Request) -> None:
        """Log a warning for each hint or extra spec of a request without effect, unless it was logged before.

        Hints that no filter reads are left out: users could fill the log with any number of them.
        """
        known_hints = {hint: value for hint, value in request.hints.items() if hint in _HINT_READERS}
        for sentence in (*self.hints(known_hints), *self.specs(request.extra_specs)):
            if sentence not in self._logged:
                self._logged.add(sentence)
                LOG.warning("A volume was asked for, and %s", sentence)

    def _sentence(self, key: str, reader: type[Filter] | None) -> str | None:
        """Return why a key has no effect, None if ``reader``, the filter that reads it, is enabled."""
        if reader is None:
            return f"{key} has no effect on Tonnage's own filters: none of them reads it"
        if reader in self._missing:
            return f"{key} has no effect: scheduler_default_filters does not name {reader.__name__}"
        return None


def _reader_of_spec(key: str) -> type[Filter] | None:
    """Return the filter that reads an extra spec, None if none does."""
    if key == type_specs.ZONES:
        return AvailabilityZoneFilter
    return CapabilitiesFilter if capabilities.path_of(key) else None
