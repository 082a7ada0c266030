# SPDX-License-Identifier: Apache-2.0
"""The demands of requests on quotas. A volume that moves, or is tried in another pool, counts already."""

from collections.abc import Iterable

import sqlalchemy as sa

from tonnage.capacity import units
from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.quotas.quota_check import Demand, Usage
from tonnage.rpc.messages import CreateGroup, CreateVolume, ExtendVolume, ManageVolume, RetypeVolume
from tonnage.scheduler.requests.placement_requests import Work
from tonnage.scheduler.requests.request_spec import Lookup


def of_request(item: Work, lookup: Lookup) -> list[Demand]:
    """Return the demand of each volume of a request; none for a request that refers to missing rows."""
    if isinstance(item, CreateGroup):
        return [demand for message in item.volumes for demand in _create(message, lookup)]
    if isinstance(item, CreateVolume):
        return _create(item, lookup)
    if isinstance(item, ExtendVolume):
        return _extend(item, lookup)
    if isinstance(item, RetypeVolume):
        return _retype(item, lookup)
    return []


def projects_of(database: Database, messages: Iterable[object]) -> set[str]:
    """Return the projects whose quotas requests demand, before anything is decided."""
    project_ids: set[str] = set()
    volume_ids: set[str] = set()
    for message in messages:
        if isinstance(message, CreateGroup):
            project_ids.update(new_volume.project_id for new_volume in message.volumes)
        elif isinstance(message, (CreateVolume, ManageVolume)):
            project_ids.add(message.project_id)
        elif isinstance(message, (ExtendVolume, RetypeVolume)):
            volume_ids.add(message.volume_id)
    if volume_ids:
        volume = models.Volume
        with database.reading() as session:
            project_ids.update(
                session.scalars(sa.select(volume.project_id).where(volume.id.in_(volume_ids)).distinct())
            )
    return project_ids


def _create(message: CreateVolume, lookup: Lookup) -> list[Demand]:
    volume_type = lookup.types.get(message.volume_type or "")
    if not 1 <= message.size_gb <= units.MAX_SIZE_GB or (volume_type is None and message.volume_type is not None):
        return []
    return [
        Demand(
            project_id=message.project_id,
            user_id=message.user_id,
            takes=Usage(1, message.size_gb),
            size_gb=message.size_gb,
            volume_type_id="" if volume_type is None else volume_type.id,
            volume_type="" if volume_type is None else volume_type.name,
        )
    ]


def _extend(message: ExtendVolume, lookup: Lookup) -> list[Demand]:
    volume = lookup.volumes.get(message.volume_id)
    if volume is None or not volume.size_gb < message.new_size_gb <= units.MAX_SIZE_GB:
        return []
    return [
        Demand(
            project_id=volume.project_id,
            user_id=volume.user_id,
            takes=Usage(0, message.new_size_gb - volume.size_gb),
            size_gb=message.new_size_gb,
            volume_type_id=volume.volume_type_id or "",
            volume_type=_name(volume.volume_type),
        )
    ]


def _retype(message: RetypeVolume, lookup: Lookup) -> list[Demand]:
    volume, volume_type = lookup.volumes.get(message.volume_id), lookup.types.get(message.volume_type)
    if volume is None or volume_type is None or volume.volume_type_id == volume_type.id:
        return []
    return [
        Demand(
            project_id=volume.project_id,
            user_id=volume.user_id,
            takes=Usage(1, volume.size_gb),
            volume_type_id=volume_type.id,
            volume_type=volume_type.name,
            new=False,
        )
    ]


def _name(volume_type: models.VolumeType | None) -> str:
    return "" if volume_type is None else volume_type.name
