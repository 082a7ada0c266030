# SPDX-License-Identifier: Apache-2.0
"""The filters that are always enabled: the first for the state of a pool, the last for the limits of the ledger."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import Rejection
from tonnage.capacity.pool_stats import BACKEND_STATE, is_reported_down
from tonnage.capacity.pools.pool import CLONE_SUPPORT
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Request
from tonnage.filters.base import Filter
from tonnage.filters.capacity import CapacityFilter
from tonnage.scheduler.cache.backend_state import LIFETIME


class Ages(Protocol):
    """The times since backends have reported, their notices, and whether they are draining."""

    def silence(self, backend: str) -> float:
        """Return the seconds since the last report of a backend."""

    def figures_age(self, pool: str) -> float:
        """Return the age in seconds of the figures of a pool."""

    def notice(self, backend: str) -> str | None:
        """Return the reason that the agent of a backend has given for its silence, None if it has given none."""

    def is_draining(self, backend: str) -> bool:
        """Return whether the volumes of a backend are moved away."""


class BackendStateFilter(Filter):
    """Accepts the pools that may be considered at all.

    Their backend is up, by its reports and by its driver, and enabled. Their figures have not expired, and they have
    not failed to create this volume before. For a clone their driver can clone as well.

    It always runs first and is not configured. Without ``ages`` a backend that is down has been silent for
    ``down_time`` seconds.
    """

    reads_figures = False

    def __init__(self, down_time: float, ages: Ages | None = None) -> None:
        self._down_time = down_time
        self._ages = ages

    def with_calculation(self, calculation: Calculation) -> Self:
        """Return this filter, which calculates nothing."""
        return self

    def accepts(self, pools: PoolTable, request: Request) -> npt.NDArray[np.bool_]:
        """Return which pools may be considered at all."""
        eligible = pools.up & pools.enabled & ~pools.expired
        codes, values = pools.capability(BACKEND_STATE)
        eligible = eligible & np.array([not is_reported_down(value) for value in values], dtype=np.bool_)[codes]
        for name in request.attempted:
            index = pools.index(name)
            if index is not None:
                eligible[index] = False
        if _is_clone(request):
            codes, values = pools.capability(CLONE_SUPPORT)
            eligible = eligible & np.array([value is not False for value in values], dtype=np.bool_)[codes]
        return eligible

    def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
        """Return one key for all requests that have not failed before and copy no volume."""
        return None if request.attempted or request.copies else ()

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Return why a pool may not be considered."""
        if not pool.up:
            silence = self._down_time if self._ages is None else self._ages.silence(pool.backend)
            notice = None if self._ages is None else self._ages.notice(pool.backend)
            return Rejection(
                "backend_down",
                f"is down: no report for {silence:.0f} s (service_down_time is {self._down_time:g})"
                + ("" if notice is None else f"; {notice}"),
                {"silence": round(silence, 1), "service_down_time": self._down_time},
            )
        if is_reported_down(pool.capabilities.get(BACKEND_STATE)):
            return Rejection("reported_down", "is down: its driver reports backend_state down")
        if not pool.enabled:
            is_draining = self._ages is not None and self._ages.is_draining(pool.backend)
            return Rejection("backend_disabled", f"is on a {'draining' if is_draining else 'disabled'} backend")
        if pool.expired:
            age = self._down_time if self._ages is None else self._ages.figures_age(pool.name)
            lifetime = pool.capabilities.get(LIFETIME)
            return Rejection(
                "expired",
                f"has expired: its figures are {age:.0f} s old, and count for {lifetime} s ({LIFETIME})",
                {"age": round(age, 1), LIFETIME: str(lifetime)},
            )
        if _is_clone(request) and pool.capabilities.get(CLONE_SUPPORT) is False:
            return Rejection("cannot_clone", "has a driver that cannot clone volumes")
        if request.operation is Operation.MIGRATE:
            return Rejection("attempted", "holds the volume already, or a copy that is still to go")
        return Rejection("attempted", "has failed to make this volume before")


def _is_clone(request: Request) -> bool:
    return request.copies and request.operation is Operation.CREATE


class LedgerFilter(CapacityFilter):
    """Keeps every pool within its limits where CapacityFilter is not enabled.

    The ledger books nothing beyond those limits, so a pool without room is never a candidate.
    """

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Return the reason of CapacityFilter, and why the limit holds."""
        rejection = super().reason(pool, request)
        return replace(
            rejection,
            message=f"{rejection.message}; the ledger keeps every pool within its limits, also where "
            "scheduler_default_filters does not name CapacityFilter",
        )
