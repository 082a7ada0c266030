# SPDX-License-Identifier: Apache-2.0
"""Filter that places a volume in a pool of its storage class."""

from collections.abc import Collection, Hashable

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.capability_values import MISSING
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

    reads = (CAPABILITY,)
    is_categorical = True
    reads_figures = False

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Evaluate each distinct list of classes once, not each pool."""
        requested_class = request.hints.get(HINT)
        codes, values = pools.capability(CAPABILITY)
        served = [_classes(value) for value in values]
        if not requested_class:
            return _mask([not _only_ephemeral(classes) for classes in served])[codes]
        if not isinstance(requested_class, str):
            return np.zeros(len(pools), dtype=np.bool_)
        accepted = _mask([requested_class in classes for classes in served])[codes]
        fallback = _mask([FALLBACK in classes for classes in served])[codes] & ~accepted
        if fallback.any():
            own = np.unique(pools.backend_code[accepted])
            accepted |= fallback & ~np.isin(pools.backend_code, own)
        return accepted

    def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
        """Cache one set of verdicts for all requests without a class.

        With a class the verdict on a pool depends on the other pools of its backend, so it is not cached.
        """
        return None if request.hints.get(HINT) else ()

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the requested class and the classes of the pool."""
        requested_class = request.hints.get(HINT)
        served = _classes(pool.capabilities.get(CAPABILITY, MISSING))
        listed = ", ".join(sorted(served)) or "none"
        if not requested_class:
            problem = "is for inline ephemeral volumes, which their nodes make"
            return Rejection("ephemeral_only", problem, {"storage_class": listed})
        if not isinstance(requested_class, str):
            value = repr(requested_class)[:80]
            return Rejection("bad_hint", f"cannot be judged by the hint {HINT}: {value} is no name", {"hint": HINT})
        numbers = {"storage_class": listed, "asked": requested_class}
        if FALLBACK in served:
            problem = f"serves {listed}, and its backend has pools of storage class '{requested_class}' itself"
            return Rejection("no_fallback", problem, numbers)
        if not served:
            return Rejection(
                "storage_class", f"reports no storage class, and '{requested_class}' is asked for", numbers
            )
        return Rejection("storage_class", f"serves storage class {listed}, not '{requested_class}'", numbers)


def _classes(value: object) -> Collection[str]:
    """Return the storage classes in a reported value, which is a class, a list of classes, or invalid."""
    if isinstance(value, str):
        return {value}
    return {name for name in value if isinstance(name, str)} if isinstance(value, (list, tuple)) else ()


def _only_ephemeral(served: Collection[str]) -> bool:
    return len(served) == 1 and EPHEMERAL in served


def _mask(verdicts: list[bool]) -> Mask:
    return np.array(verdicts, dtype=np.bool_)
