# SPDX-License-Identifier: Apache-2.0
"""Hints without effect, because the filter that reads them is not enabled.

Block Storage has always accepted such requests, and clients send hints that only some clouds know. So they are not
refused, but the log and explanations mention them.
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

_READERS: Mapping[str, type[Filter]] = {
    requirements.NODE: TopologyFilter,
    requirements.REQUIREMENTS: TopologyFilter,
    storage_class.HINT: StorageClassFilter,
    json_query.HINT: JsonFilter,
    LOCAL_TO_INSTANCE: InstanceLocalityFilter,
    affinity.SAME_HOST: SameBackendFilter,
    affinity.DIFFERENT_HOST: DifferentBackendFilter,
}


class IgnoredHints:
    """The hints that have no effect with these filters; a warning is logged once for each."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        enabled = tuple(filters)
        self._sentences = {
            hint: f"the hint {hint} has no effect: scheduler_default_filters does not name {filter_class.__name__}"
            for hint, filter_class in _READERS.items()
            if not any(isinstance(plugin, filter_class) for plugin in enabled)
        }
        self._logged: set[str] = set()

    def among(self, hints: Mapping[str, object]) -> list[str]:
        """Return a sentence for each of these hints that has a value and no effect."""
        return [sentence for hint, sentence in self._sentences.items() if hints.get(hint)]

    def tell(self, hints: Mapping[str, object]) -> None:
        """Log a warning for each of these hints without effect, unless it was logged before."""
        for sentence in self.among(hints) if hints else ():
            if sentence not in self._logged:
                self._logged.add(sentence)
                LOG.warning("A volume was asked for, and %s", sentence)
