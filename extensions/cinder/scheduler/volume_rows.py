# SPDX-License-Identifier: Apache-2.0
"""The rows of volumes in Cinder's database, read and written through Cinder's own connections."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_utils import timeutils

from tonnage.extensions.cinder import releases
from tonnage.ledger.db import dialects

cinder_db, models = releases.import_database()

_VOLUME = models.Volume.__table__.c
_CREATING = sa.update(models.Volume.__table__).where(
    _VOLUME.id == sa.bindparam("of"), _VOLUME.deleted == sa.false(), _VOLUME.status == "creating"
)
_TAKE = _CREATING.where(_VOLUME.host.is_(None)).values(
    host=sa.bindparam("to_host"),
    cluster_name=sa.bindparam("to_cluster_name"),
    scheduled_at=sa.bindparam("to_scheduled_at"),
    availability_zone=sa.bindparam("to_availability_zone"),
)
_GIVE_BACK = _CREATING.where(_VOLUME.host == sa.bindparam("taken")).values(host=None)


@dataclass(frozen=True, slots=True)
class Row:
    """A live row of a volume."""

    id: str
    pool: str | None
    size_gb: int
    status: str
    migration_status: str
    project_id: str
    group_id: str | None


class VolumeRows:
    """Reads rows. Each read is a transaction of its own, so it sees all that was committed before."""

    def read(self, volume_ids: Collection[str] | None = None) -> Sequence[Row]:
        """Return the live rows of all volumes, or of the volumes with these ids or in groups with these ids."""
        volume = models.Volume
        statement = sa.select(
            volume.id,
            volume.host,
            volume.cluster_name,
            volume.size,
            volume.status,
            volume.migration_status,
            volume.project_id,
            volume.group_id,
        ).where(volume.deleted == sa.false())
        if volume_ids is None:
            return _rows([statement])
        rows = _rows([statement.where(volume.id.in_(chunk)) for chunk in dialects.in_chunks(sorted(volume_ids))])
        if not (group_ids := sorted(set(volume_ids) - {row.id for row in rows})):
            return rows
        return rows + _rows([statement.where(volume.group_id.in_(chunk)) for chunk in dialects.in_chunks(group_ids)])

    def snapshots_in_hand(self) -> Collection[str]:
        """Return the ids of the snapshots that are being made."""
        snapshot = models.Snapshot
        return {
            row.id
            for row in _execute(
                [sa.select(snapshot.id).where(snapshot.deleted == sa.false(), snapshot.status == "creating")]
            )
        }


class WaitingRow:
    """The row of a volume that waits for a pool, and the pool that is chosen for it."""

    def __init__(self, volume: Any, pool: Any) -> None:
        self._volume, self._pool = volume, pool

    def take(self, _pool: str) -> bool:
        """Write the pool, unless the volume has one or is not being created any more; return whether it is written."""
        values = {
            "host": self._pool.host,
            "cluster_name": self._pool.cluster_name,
            "scheduled_at": timeutils.utcnow(),
            "availability_zone": self._pool.service["availability_zone"],
        }
        if not _write(_TAKE, {"of": self._volume.id, **{f"to_{name}": value for name, value in values.items()}}):
            return False
        self._volume.update(values)
        self._volume.obj_reset_changes(values)
        return True

    def give_back(self) -> None:
        """Let the volume wait again."""
        if _write(_GIVE_BACK, {"of": self._volume.id, "taken": self._pool.host}):
            self._volume.host = None
            self._volume.obj_reset_changes(["host"])


@oslo_db_api.wrap_db_retry(max_retries=5, retry_on_deadlock=True)  # type: ignore[untyped-decorator]
def _write(statement: sa.Update, values: Mapping[str, Any]) -> bool:
    """Execute a conditional update of a row; return whether it has matched."""
    with cinder_db.get_engine().begin() as connection:
        return bool(connection.execute(statement, values).rowcount)


def _rows(statements: Sequence[sa.Select[Any]]) -> list[Row]:
    return [
        # A volume that waits for another attempt keeps the name of the cluster, but has no host.
        Row(id, (cluster or host) if host else None, size or 0, status or "", migration or "", project or "", group)
        for id, host, cluster, size, status, migration, project, group in _execute(statements)
    ]


def _execute(statements: Sequence[sa.Select[Any]]) -> list[Any]:
    with cinder_db.get_engine().connect() as connection:
        return [row for statement in statements for row in connection.execute(statement)]
