# SPDX-License-Identifier: Apache-2.0
"""Filter that places a volume in a pool of its storage class."""

from collections.abc import Collection, Hashable

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.expressions.capability_values import MISSING
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask

#: Name of the hint with the storage class, and of the capability: one class or a list of classes.
HINT = "storage_class"
CAPABILITY = "storage_class"

#: Value of the capability for all classes without a pool of their own on the backend.
FALLBACK = "<fallback>"

#: Value of the capability for inline ephemeral volumes, which have no class.
EPHEMERAL = "<ephemeral>"


class StorageClassFilter(Filter):
    """Accepts pools that serve the storage class in the hint ``storage_class``.

    Pools report their classes in the capability ``storage_class``. ``<fallback>`` stands for every class without a pool
    of its own on the backend; the free space of such a pool does not matter. A pool without the capability serves no
    class, and accepts volumes without a class. Volumes without a class are accepted by all pools, except pools for
    inline ephemeral volumes (``<ephemeral>``) only.
    """

    judges_kind = True
    looks_at_figures = False

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Evaluate each distinct list of classes once, not each pool."""
        asked = request.hints.get(HINT)
        codes, values = pools.capability(CAPABILITY)
        served = [_classes(value) for value in values]
        if not asked:
            return _mask([not _only_ephemeral(each) for each in served])[codes]
        if not isinstance(asked, str):
            return np.zeros(len(pools), dtype=np.bool_)
        accepted = _mask([asked in each for each in served])[codes]
        fallback = _mask([FALLBACK in each for each in served])[codes] & ~accepted
        if fallback.any():
            own = np.unique(pools.backend_code[accepted])
            accepted |= fallback & ~np.isin(pools.backend_code, own)
        return accepted

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Cache one set of verdicts for all requests without a class.

        With a class the verdict on a pool depends on the other pools of its backend, so it is not cached.
        """
        return None if request.hints.get(HINT) else ()

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the requested class and the classes of the pool."""
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
    """Return the storage classes in a reported value, which is a class, a list of classes, or invalid."""
    if isinstance(value, str):
        return {value}
    return {each for each in value if isinstance(each, str)} if isinstance(value, (list, tuple)) else ()


def _only_ephemeral(served: Collection[str]) -> bool:
    return len(served) == 1 and EPHEMERAL in served


def _mask(verdicts: list[bool]) -> Mask:
    return np.array(verdicts, dtype=np.bool_)
