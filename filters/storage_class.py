# SPDX-License-Identifier: Apache-2.0
"""Keeps a volume where its storage class is served."""

from collections.abc import Collection, Hashable

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.expressions.capability_values import MISSING
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask

#: The hint that names the storage class, and the capability: one class or a list of them.
HINT = "storage_class"
CAPABILITY = "storage_class"

#: Stands for all classes of which the backend has no pool of their own.
FALLBACK = "<fallback>"

#: Stands for inline ephemeral volumes, which have no class.
EPHEMERAL = "<ephemeral>"


class StorageClassFilter(Filter):
    """Accepts pools that serve the storage class which the hint ``storage_class`` names.

    Pools report as ``storage_class`` what they serve. ``<fallback>`` is any class for which no pool of the backend is,
    whether that has room or not. A pool that reports none serves none, and takes volumes without a class. Volumes
    without one go anywhere but to pools that are for inline ephemeral volumes (``<ephemeral>``) alone.
    """

    looks_at_figures = False

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Look at each distinct list of classes, not at each pool."""
        asked = request.hints.get(HINT)
        codes, values = pools.capability(CAPABILITY)
        served = [_classes(value) for value in values]
        if not asked:
            return _each([not _only_ephemeral(each) for each in served])[codes]
        if not isinstance(asked, str):
            return np.zeros(len(pools), dtype=np.bool_)
        accepted = _each([asked in each for each in served])[codes]
        standing_in = _each([FALLBACK in each for each in served])[codes] & ~accepted
        if standing_in.any():
            own = np.unique(pools.backend_code[accepted])
            accepted |= standing_in & ~np.isin(pools.backend_code, own)
        return accepted

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Keep what is true of every request without a class; for one with a class, other pools count as well."""
        return None if request.hints.get(HINT) else ()

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the class and what the pool serves."""
        asked = request.hints.get(HINT)
        served = _classes(pool.capabilities.get(CAPABILITY, MISSING))
        listed = ", ".join(sorted(served)) or "none"
        if not asked:
            problem = "is for inline ephemeral volumes, which their nodes make"
            return Rejection("ephemeral_only", problem, {"storage_class": listed})
        if not isinstance(asked, str):
            value = repr(asked)[:80]
            return Rejection("bad_hint", f"cannot be judged by the hint {HINT}: {value} is no name", {"hint": HINT})
        numbers = {"storage_class": listed, "asked": asked}
        if FALLBACK in served:
            problem = f"serves {listed}, and its backend has pools of storage class '{asked}' itself"
            return Rejection("no_fallback", problem, numbers)
        if not served:
            return Rejection("storage_class", f"reports no storage class, and '{asked}' is asked for", numbers)
        return Rejection("storage_class", f"serves storage class {listed}, not '{asked}'", numbers)


def _classes(value: object) -> Collection[str]:
    """Return what classes a reported value names: one, those of a list, or none."""
    if isinstance(value, str):
        return {value}
    return {each for each in value if isinstance(each, str)} if isinstance(value, (list, tuple)) else ()


def _only_ephemeral(served: Collection[str]) -> bool:
    return len(served) == 1 and EPHEMERAL in served


def _each(verdicts: list[bool]) -> Mask:
    return np.array(verdicts, dtype=np.bool_)
