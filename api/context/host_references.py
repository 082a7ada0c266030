# SPDX-License-Identifier: Apache-2.0
"""References to backends, ``host@backend``, and pools, ``host@backend#pool``, in the field ``host`` of requests."""

from dataclasses import dataclass

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger.inventory import backends


@dataclass(frozen=True, slots=True)
class HostReference:
    """A backend with its availability zone and its pools, or one of these pools (``pool``)."""

    backend: str
    pools: tuple[str, ...]
    pool: str | None = None
    availability_zone: str = ""

    @property
    def name(self) -> str:
        """The full name of the pool, or of the backend."""
        return self.pool or self.backend

    def single_pool(self) -> str:
        """Return the referenced pool, or the only pool of the backend.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for a backend that does not have exactly one pool.
        """
        if self.pool is not None:
            return self.pool
        if len(self.pools) != 1:
            raise errors.InvalidInput(f"host is {self.backend!r}: expected one of its pools, {_listed(self.pools)}")
        return self.pools[0]


def find(session: orm.Session, name: str) -> HostReference:
    """Return the reference for a name. Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown one."""
    backend, mark, _ = name.partition("#")
    row = backends.find(session, backend)
    if row is None:
        raise errors.InvalidInput(
            f"host is {name!r}: there is no such backend; expected host@backend or host@backend#pool, as get_pools "
            "shows them"
        )
    pools = tuple(sorted(pool.name for pool in backends.load_pools(session, backend=backend)))
    if mark and name not in pools:
        raise errors.InvalidInput(f"host is {name!r}: the pools of that backend are {_listed(pools)}")
    return HostReference(backend, pools, name if mark else None, row.availability_zone)


def _listed(pools: tuple[str, ...]) -> str:
    return ", ".join(pools) or "not reported yet"
