# SPDX-License-Identifier: Apache-2.0
"""A watch on the ledger for room: claims that have ended, and figures that have grown."""

from collections.abc import Mapping

import numpy as np

from tonnage.extensions.kubernetes.capacity import claim_rows, driver_rows, pool_columns
from tonnage.extensions.kubernetes.capacity.claim_cache import ClaimCache
from tonnage.extensions.kubernetes.capacity.pool_cache import PoolCache
from tonnage.extensions.kubernetes.capacity.pool_columns import PoolColumns
from tonnage.ledger.db.database import Database


class RoomWatch:
    """Tells whether a pod that was refused may fit now. One thread calls it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache, self._claims = PoolCache(), ClaimCache()
        self._removals: Mapping[str, tuple[str, int]] = {}
        self._columns: Mapping[str, PoolColumns] = {}

    def has_come(self) -> bool:
        """Return whether room has come since the last call.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger does not answer.
        """
        with self._database.reading(snapshot=True) as session:
            states = self._cache.read_states(session, [driver.name for driver in driver_rows.list_all(session)])
            uids = [state.columns.uid for state in states.values()]
            moment = claim_rows.moment(session, uids)
            removals = self._claims.removals(session, states, moment)
        columns = {name: state.columns for name, state in states.items()}
        now = pool_columns.to_microseconds(moment.now)
        has_come = any(
            removals[name] != self._removals.get(name) or _has_grown(self._columns.get(name), of_driver, now)
            for name, of_driver in columns.items()
        )
        self._removals, self._columns = removals, columns
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
