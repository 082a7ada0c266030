# SPDX-License-Identifier: Apache-2.0
"""The rows of volumes in Cinder's database, read through Cinder's own connection."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from cinder import context as cinder_context
from cinder.db import api as cinder_db
from cinder.db import models

from tonnage.ledger.db import dialects


@dataclass(frozen=True, slots=True)
class Row:
    """A live row of a volume."""

    id: str
    pool: str | None
    size_gb: int
    status: str
    migration_status: str
    project_id: str


class VolumeRows:
    """Reads rows. Each read is a transaction of its own, so it sees all that was committed before."""

    def read(self, volume_ids: Collection[str] | None = None) -> Sequence[Row]:
        """Return the live rows of all volumes, or of these."""
        volume = models.Volume
        statement = sa.select(
            volume.id,
            volume.host,
            volume.cluster_name,
            volume.size,
            volume.status,
            volume.migration_status,
            volume.project_id,
        ).where(volume.deleted == sa.false())
        statements = (
            [statement]
            if volume_ids is None
            else [statement.where(volume.id.in_(some)) for some in dialects.in_chunks(sorted(volume_ids))]
        )
        return [
            # A volume that waits for another attempt keeps the name of the cluster, but has no host.
            Row(id, (cluster or host) if host else None, size or 0, status or "", migration or "", project or "")
            for id, host, cluster, size, status, migration, project in _execute(statements)
        ]

    def snapshots_in_hand(self) -> Collection[str]:
        """Return the ids of the snapshots that are being made."""
        snapshot = models.Snapshot
        return {
            row.id
            for row in _execute(
                [sa.select(snapshot.id).where(snapshot.deleted == sa.false(), snapshot.status == "creating")]
            )
        }


def _execute(statements: Sequence[sa.Select[Any]]) -> list[Any]:
    context = cinder_context.get_admin_context()
    with cinder_db.main_context_manager.reader.using(context) as session:
        return [row for statement in statements for row in session.execute(statement)]
