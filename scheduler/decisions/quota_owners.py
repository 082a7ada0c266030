# SPDX-License-Identifier: Apache-2.0
"""Whose quotas requests are held against, known before anything is decided."""

from collections.abc import Iterable

import sqlalchemy as sa

from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.rpc.messages import CreateGroup, CreateVolume, ExtendVolume, ManageVolume, RetypeVolume


def projects(database: Database, messages: Iterable[object]) -> set[str]:
    """Return the projects of requests that take quota."""
    found: set[str] = set()
    volume_ids: set[str] = set()
    for message in messages:
        if isinstance(message, CreateGroup):
            found.update(each.project_id for each in message.volumes)
        elif isinstance(message, (CreateVolume, ManageVolume)):
            found.add(message.project_id)
        elif isinstance(message, (ExtendVolume, RetypeVolume)):
            volume_ids.add(message.volume_id)
    if volume_ids:
        volume = models.Volume
        with database.reading() as session:
            found.update(session.scalars(sa.select(volume.project_id).where(volume.id.in_(volume_ids)).distinct()))
    return found
