# SPDX-License-Identifier: Apache-2.0
"""A watch on the ledger for room: claims that have ended, and figures that have grown."""

from collections.abc import Mapping, Set

import numpy as np
import sqlalchemy as sa

from tonnage.extensions.kubernetes.capacity import driver_rows, pool_columns
from tonnage.extensions.kubernetes.capacity.pool_cache import PoolCache
from tonnage.extensions.kubernetes.capacity.pool_columns import PoolColumns
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger.db.database import Database

_CLAIM = tables.CsiClaim


class RoomWatch:
    """Tells whether a pod that was refused may fit now. One thread calls it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache = PoolCache()
        self._claims: Set[tuple[str, str, str, int]] = frozenset()
        self._columns: Mapping[str, PoolColumns] = {}

    def has_come(self) -> bool:
        """Return whether room has come since the last call.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger does not answer.
        """
        with self._database.reading(snapshot=True) as session:
            now = capacity_claims.now(session)
            columns = self._cache.read(session, [driver.name for driver in driver_rows.list_all(session)])
            rows = session.execute(
                sa.select(_CLAIM.holder, _CLAIM.volume, _CLAIM.pool, _CLAIM.size, _CLAIM.expires_at)
            ).all()
        claims = {(row.holder, row.volume, row.pool, row.size) for row in rows if row.expires_at > now}
        has_come = not self._claims <= claims or any(
            _has_grown(self._columns.get(name), of_driver, pool_columns.to_microseconds(now))
            for name, of_driver in columns.items()
        )
        self._claims, self._columns = claims, columns
        return has_come


def _has_grown(before: PoolColumns | None, after: PoolColumns, now: int) -> bool:
    """Return whether a pool has more room than before, or is reached from other nodes.

    ``now`` is in microseconds since 1970.
    """
    if before is after:
        return False
    if before is None or (before.uid, before.layout) != (after.uid, after.layout):
        return True
    has_more = (after.capacity > before.capacity) | (after.max_volume_size > before.max_volume_size)
    is_renewed = (before.expires_at <= now) & (after.expires_at > now)
    return bool(np.any(has_more | is_renewed)) or before.tracking != after.tracking
