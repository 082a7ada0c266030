# SPDX-License-Identifier: Apache-2.0
"""Functions of backends without effect, because the plug-in that reads them is not enabled."""

import logging
from collections.abc import Sequence

from tonnage.filters import driver
from tonnage.filters.chain import FilterChain
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.weighers import goodness
from tonnage.weighers.chain import WeigherChain

LOG = logging.getLogger(__name__)

#: Most backends that one line of the log names.
_MOST = 5


class UnreadFunctions:
    """Logs a warning once for each function and backend. Belongs to the decision thread."""

    def __init__(self, hosts: HostManager) -> None:
        self._hosts = hosts
        self._warned: dict[str, set[str]] = {}

    def warn(self, filters: FilterChain, weighers: WeigherChain) -> None:
        """Log the functions that neither these filters nor these weighers read."""
        if not any(isinstance(plugin, driver.DriverFilter) for plugin in filters.filters):
            self._warn_about(driver.FUNCTION, driver.DriverFilter.__name__, "scheduler_default_filters")
        if not any(isinstance(weigher, goodness.GoodnessWeigher) for weigher in weighers.weighers):
            self._warn_about(goodness.FUNCTION, goodness.GoodnessWeigher.__name__, "scheduler_default_weighers")

    def _warn_about(self, function: str, plugin: str, option: str) -> None:
        unread = {backend.name for backend in self._hosts.backends() if backend.functions[function]}
        new = sorted(unread - self._warned.get(function, set()))
        self._warned[function] = unread
        if new:
            LOG.warning(
                "%s has no effect on backend %s: %s is not among %s; add it there, or remove the function from the "
                "backend's configuration",
                function,
                _joined(new),
                plugin,
                option,
            )


def _joined(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")
