# SPDX-License-Identifier: Apache-2.0
"""Hints that nobody looks at, as the filter that would is not enabled.

Block Storage has always let such requests through, and clients send hints that only some clouds know. So they are not
refused, but whoever runs this one is told, and whoever asks for an explanation.
"""

import logging
from collections.abc import Iterable, Mapping

from tonnage.capacity.request import LOCAL_TO_INSTANCE
from tonnage.capacity.topology import requirements
from tonnage.filters import affinity, json_query, storage_class
from tonnage.filters.affinity import DifferentBackendFilter, SameBackendFilter
from tonnage.filters.base import Filter
from tonnage.filters.instance_locality import InstanceLocalityFilter
from tonnage.filters.json_query import JsonFilter
from tonnage.filters.storage_class import StorageClassFilter
from tonnage.filters.topology import TopologyFilter

LOG = logging.getLogger(__name__)

_LOOKED_AT_BY: Mapping[str, type[Filter]] = {
    requirements.NODE: TopologyFilter,
    requirements.REQUIREMENTS: TopologyFilter,
    storage_class.HINT: StorageClassFilter,
    json_query.HINT: JsonFilter,
    LOCAL_TO_INSTANCE: InstanceLocalityFilter,
    affinity.SAME_HOST: SameBackendFilter,
    affinity.DIFFERENT_HOST: DifferentBackendFilter,
}


class IgnoredHints:
    """Knows which hints have no effect where these filters are enabled, and says so of each once in the log."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        enabled = tuple(filters)
        self._words = {
            hint: f"the hint {hint} has no effect: scheduler_default_filters does not name {kind.__name__}"
            for hint, kind in _LOOKED_AT_BY.items()
            if not any(isinstance(each, kind) for each in enabled)
        }
        self._told: set[str] = set()

    def among(self, hints: Mapping[str, object]) -> list[str]:
        """Return a sentence for each of these hints that says something and has no effect."""
        return [words for hint, words in self._words.items() if hints.get(hint)]

    def tell(self, hints: Mapping[str, object]) -> None:
        """Log what was not logged before."""
        for words in self.among(hints) if hints else ():
            if words not in self._told:
                self._told.add(words)
                LOG.warning("A volume was asked for, and %s", words)
