# SPDX-License-Identifier: Apache-2.0
"""Import of the pools of provisioners into the storage of the drivers of a cluster.

Several processes import. A driver's row has the resource version of the objects that were imported last, and objects
of an earlier version are not imported, unless all figures have expired: a restored cluster begins with lower versions
again.

The figures of a working provisioner are renewed, whether they have changed or not. If its state is not known the
figures expire some time after it was; once it is gone they expire at once.
"""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.claim_sums import PoolKey
from tonnage.extensions.kubernetes.capacity.driver_storage import Pool, Storage
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.extensions.kubernetes.provisioner.provisioner_pools import ProvisionerPool
from tonnage.extensions.kubernetes.provisioner.provisioner_state import ProvisionerState
from tonnage.ledger.db.database import Database


@dataclass(frozen=True, slots=True)
class _Changes:
    """The pools to write and to remove."""

    written: tuple[tuple[str, Pool], ...] = ()
    removed: tuple[PoolKey, ...] = ()

    def __len__(self) -> int:
        return len(self.written) + len(self.removed)


class ProvisionerImporter:
    """Imports changed pools. ``lifetime`` is the number of seconds for which figures may be used without a renewal."""

    def __init__(self, ledger: Database, lifetime: float) -> None:
        self._ledger, self._lifetime = ledger, datetime.timedelta(seconds=lifetime)

    def import_pools(self, pools: Mapping[str, Mapping[PoolKey, ProvisionerPool]], objects_version: int) -> int:
        """Import the pools by driver, which were read at a resource version, and return the number of changed pools.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the database does not answer.
        """
        with self._ledger.reading(snapshot=True) as session:
            now = capacity_claims.now(session)
            stored = {driver.name: driver.uid for driver in driver_rows.list_all(session)}
            names = pools.keys() | driver_rows.drivers_with_objects(session)
            changed = [
                name
                for name in sorted(names)
                if self._changes(self._stored_pools(session, stored.get(name)), pools.get(name, {}), now)
            ]
        return sum(self._ledger.run(self._import, name, pools.get(name, {}), objects_version) for name in changed)

    def _import(
        self, session: orm.Session, name: str, pools: Mapping[PoolKey, ProvisionerPool], objects_version: int
    ) -> int:
        """Import the pools of a driver, which are compared again under its lock."""
        row = driver_rows.lock_or_create(session, name) if pools else driver_rows.lock(session, name)
        if row is None:  # removed in the meantime
            return 0
        now, stored = capacity_claims.now(session), self._stored_pools(session, row.uid)
        if self._is_outdated(row, objects_version, stored.values(), now):
            return 0
        changes = self._changes(stored, pools, now)
        row.objects_version = objects_version
        driver_rows.write_pools(session, row, changes.written, changes.removed)
        return len(changes)

    @staticmethod
    def _is_outdated(
        row: tables.CsiDriver, objects_version: int, stored: Iterable[Pool], now: datetime.datetime
    ) -> bool:
        """Return whether another process has imported later objects."""
        return (
            row.objects_version is not None
            and objects_version < row.objects_version
            and any(pool.expires_at is None or pool.expires_at > now for pool in stored)
        )

    @staticmethod
    def _stored_pools(session: orm.Session, uid: str | None) -> dict[PoolKey, Pool]:
        """Return the stored pools that come from objects."""
        storage: tuple[Storage, ...] = () if uid is None else driver_rows.read_storage(session, uid)
        return {
            (part.storage_class, pool.name): pool
            for part in storage
            for pool in part.pools
            if pool.object_name is not None
        }

    def _changes(
        self,
        stored: Mapping[PoolKey, Pool],
        pools: Mapping[PoolKey, ProvisionerPool],
        now: datetime.datetime,
    ) -> _Changes:
        written = []
        for key, provisioner_pool in pools.items():
            old = stored.get(key)
            expires_at = self._expiry(old, provisioner_pool.state, now)
            if expires_at is None:
                continue
            new = replace(provisioner_pool.pool, expires_at=expires_at)
            if old is None or new != old:
                written.append((key[0], new))
        return _Changes(tuple(written), tuple(sorted(stored.keys() - pools.keys())))

    def _expiry(self, old: Pool | None, state: ProvisionerState, now: datetime.datetime) -> datetime.datetime | None:
        """Return the expiry of a pool's figures, None for a pool that is not written before its provisioner works."""
        expires_at = None if old is None else old.expires_at
        match state:
            case ProvisionerState.WORKING:
                is_due = expires_at is None or expires_at - now < self._lifetime / 2
                return now + self._lifetime if is_due else expires_at
            case ProvisionerState.UNKNOWN:
                return expires_at
            case ProvisionerState.GONE:
                return None if expires_at is None else min(expires_at, now)
