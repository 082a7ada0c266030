# SPDX-License-Identifier: Apache-2.0
"""The pools that an argument of a goal names."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tonnage.capacity import errors

if TYPE_CHECKING:
    from tonnage.capacity.pools.pool_table import PoolTable

#: Most pools of a backend that an error names.
_MOST_POOLS = 5

#: The advice about a name that is similar to no other.
_ALL_POOLS = "'tonnage pools' lists the pools, 'openstack volume backend pool list' those of a cloud"


def of_pool_or_backend(pools: "PoolTable", name: str) -> list[str]:
    """Return the pool with this name, or the pools of the backend with this name.

    Raises :class:`~tonnage.capacity.errors.NotFound`.
    """
    if "#" in name:
        require(pools, [name])
        return [name]
    of_backend = _of_backend(pools, name)
    if not of_backend:
        known = {_backend_of(pool) for pool in pools.names} | set(pools.names)
        raise errors.NotFound(f"backend {name} could not be found: no pool of it is reported; {_advice(name, known)}")
    return of_backend


def require(pools: "PoolTable", names: Sequence[str]) -> None:
    """Raise :class:`~tonnage.capacity.errors.NotFound` for a pool that is not there."""
    for name in names:
        if pools.index(name) is not None:
            continue
        if of_backend := _of_backend(pools, name):
            shown = ", ".join(of_backend[:_MOST_POOLS])
            rest = len(of_backend) - _MOST_POOLS
            more = f" and {rest} more" if rest > 0 else ""
            raise errors.NotFound(f"{name} is a backend, and a pool is expected: it has the pools {shown}{more}")
        advice = _advice(name, set(pools.names))
        raise errors.NotFound(f"pool {name} could not be found: no report has named it; {advice}")


def _of_backend(pools: "PoolTable", name: str) -> list[str]:
    return sorted(pool for pool in pools.names if _backend_of(pool) == name)


def _backend_of(pool: str) -> str:
    # Imported here: the help of commands must not wait for the libraries of the package.
    from tonnage.capacity.pools.pool import backend_of

    return backend_of(pool)


def _advice(name: str, known: Collection[str]) -> str:
    from tonnage.capacity.pools import name_suggestions

    return name_suggestions.advice(name, sorted(known), _ALL_POOLS)
