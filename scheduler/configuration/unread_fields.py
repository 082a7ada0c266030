# SPDX-License-Identifier: Apache-2.0
"""Fields of reports without effect, because no enabled plug-in reads them."""

import datetime
import logging
from collections.abc import Iterable, Sequence

from tonnage.filters.base import Filter
from tonnage.filters.chain import FilterChain
from tonnage.plugin import SchedulerPlugin
from tonnage.scheduler.cache.backend_state import READERS, BackendEntry
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.weighers.chain import WeigherChain

LOG = logging.getLogger(__name__)

#: Most backends that one line of the log names.
_MOST = 5

#: The options of backends whose fields in reports have another name.
_OPTIONS = {"storage_class": "storage_classes"}


class UnreadFields:
    """Logs a warning once for each field and backend. Belongs to the decision thread.

    Reports from before the start do not count: the field may have been removed from the configuration since.
    """

    def __init__(self, hosts: HostManager) -> None:
        self._hosts = hosts
        self._warned: dict[str, set[str]] = {}
        self._first_times: dict[str, datetime.datetime | None] = {}

    def warn(self, filters: FilterChain, weighers: WeigherChain) -> None:
        """Log the fields that neither these filters nor these weighers read."""
        read = {field for plugin in (*filters.filters, *weighers.weighers) for field in plugin.reads}
        backends = [backend for backend in self._hosts.backends() if self._is_new(backend) and backend.rules]
        for reader in READERS:
            for field in sorted(reader.reads):
                self._warn_about(field, reader, () if field in read else backends)

    def _is_new(self, backend: BackendEntry) -> bool:
        """Return whether a report of the backend has come since the start, here or to another scheduler."""
        first_time = self._first_times.setdefault(backend.name, backend.reported_at)
        return backend.reported_here or backend.reported_at != first_time

    def _warn_about(self, field: str, reader: type[SchedulerPlugin], backends: Iterable[BackendEntry]) -> None:
        unread = {backend.name for backend in backends if any(field in fields for fields in backend.rules.values())}
        new = sorted(unread - self._warned.get(field, set()))
        self._warned[field] = unread
        if new:
            option = _OPTIONS.get(field, field)
            LOG.warning(
                "%s has no effect on backend %s: %s is not among %s; add it there, or remove %s from the backend's "
                "configuration",
                option,
                _joined(new),
                reader.__name__,
                "scheduler_default_filters" if issubclass(reader, Filter) else "scheduler_default_weighers",
                option,
            )


def _joined(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")
