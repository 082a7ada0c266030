# SPDX-License-Identifier: Apache-2.0
"""Backends ``host@backend`` and pools ``host@backend#pool``, as requests name them in ``host``."""

from dataclasses import dataclass

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger.inventory import backends


@dataclass(frozen=True, slots=True)
class Place:
    """A backend with its pools, or one of these (``pool``)."""

    backend: str
    pools: tuple[str, ...]
    pool: str | None = None

    @property
    def name(self) -> str:
        """The full name of the pool, or of the backend."""
        return self.pool or self.backend

    def only_pool(self) -> str:
        """Return the pool that is meant: the one that was named, or the only one of the backend.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` if there are several.
        """
        if self.pool is not None:
            return self.pool
        if len(self.pools) != 1:
            raise errors.InvalidInput(f"host is {self.backend!r}: expected one of its pools, {_listed(self.pools)}")
        return self.pools[0]


def find(session: orm.Session, name: str) -> Place:
    """Return what a name stands for. Raises :class:`~tonnage.capacity.errors.InvalidInput` if that is nothing."""
    backend, mark, _ = name.partition("#")
    if backends.find(session, backend) is None:
        raise errors.InvalidInput(
            f"host is {name!r}: there is no such backend; expected host@backend or host@backend#pool, as get_pools "
            "shows them"
        )
    pools = tuple(sorted(pool.name for pool in backends.load_pools(session, backend=backend)))
    if mark and name not in pools:
        raise errors.InvalidInput(f"host is {name!r}: the pools of that backend are {_listed(pools)}")
    return Place(backend, pools, name if mark else None)


def _listed(pools: tuple[str, ...]) -> str:
    return ", ".join(pools) or "not reported yet"
