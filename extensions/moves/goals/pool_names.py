# SPDX-License-Identifier: Apache-2.0
"""The pools that an argument of a goal names."""

from collections.abc import Sequence

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable


def of_pool_or_backend(pools: PoolTable, name: str) -> list[str]:
    """Return the pool with this name, or the pools of the backend with this name.

    Raises :class:`~tonnage.capacity.errors.NotFound`.
    """
    if "#" in name:
        require(pools, [name])
        return [name]
    of_backend = sorted(pool for pool in pools.names if backend_of(pool) == name)
    if not of_backend:
        raise errors.NotFound(f"backend {name} could not be found: no pool of it is reported")
    return of_backend


def require(pools: PoolTable, names: Sequence[str]) -> None:
    """Raise :class:`~tonnage.capacity.errors.NotFound` for a pool that is not there."""
    for name in names:
        if pools.index(name) is None:
            raise errors.NotFound(f"pool {name} could not be found: no report has named it")
