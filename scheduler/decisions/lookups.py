# SPDX-License-Identifier: Apache-2.0
"""The read of everything that a batch of messages refers to: volume types, volumes with their pools, groups."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.claims import clone_sources, group_backends, pool_counters
from tonnage.ledger.db import dialects
from tonnage.rpc.messages import CreateVolume, ExtendVolume
from tonnage.scheduler.decisions.placement_requests import Move, Single
from tonnage.scheduler.decisions.request_spec import Lookup, UnplacedVolume
from tonnage.scheduler.decisions.steps.registry import steps_of


def read_references(session: orm.Session, items: Sequence[Single]) -> Lookup:
    """Read the rows that the messages refer to."""
    names: set[str] = set()
    ids: set[str] = set()
    for item in items:
        if isinstance(item, CreateVolume):
            names.add(item.volume_type or "")
            ids.update(_named_by(item))
        elif isinstance(item, Move):
            names.add(item.volume_type or "")
            ids.add(item.message.volume_id)
        else:
            ids.add(item.volume_id)
    names.discard("")
    ids.discard("")
    volumes = _volumes(session, ids) if ids else {}
    group_ids = {item.group_id for item in items if isinstance(item, CreateVolume)}
    group_ids |= {row.group_id for row in volumes.values() if row.pool_id is None}
    group_ids.discard(None)
    moved = [item.message.volume_id for item in items if isinstance(item, Move)]
    extended = {item.volume_id for item in items if isinstance(item, ExtendVolume)}
    return Lookup(
        volume_types.read_specs(session, names) if names else {},
        volumes,
        _copies(session, moved) if moved else {},
        group_backends.load(session, {each for each in group_ids if each is not None}) if group_ids else {},
        clone_sources.being_cloned(session, extended) if extended else {},
    )


def hints_of(session: orm.Session, volume_id: str) -> tuple[str, Mapping[str, object]]:
    """Return the project of a volume and the hints that it was asked for with; none if it is gone."""
    query = sa.select(models.Volume.project_id, models.Volume.hints).where(models.Volume.id == volume_id)
    row = session.execute(query).one_or_none()
    return ("", {}) if row is None else (row.project_id, row.hints or {})


def _volumes(session: orm.Session, ids: set[str]) -> dict[str, models.Volume]:
    """Return volumes by id, and the volumes that waiting ones among them refer to in turn."""
    kind, volume = models.VolumeType, models.Volume
    volumes: dict[str, models.Volume] = {}
    with_names = sa.select(volume).options(
        orm.joinedload(volume.pool), orm.joinedload(volume.volume_type).joinedload(kind.qos)
    )
    while ids:
        rows = [
            row for some in dialects.in_chunks(ids) for row in session.scalars(with_names.where(volume.id.in_(some)))
        ]
        volumes.update({row.id: row for row in rows})
        ids = {other for row in rows if row.pool_id is None for other in _named_by(row)} - volumes.keys()
    return volumes


def _named_by(volume: UnplacedVolume) -> list[str]:
    """Return the ids of other volumes that a request depends on."""
    return [volume_id for step in steps_of(volume) for volume_id in step.volume_ids(volume)]


def _copies(session: orm.Session, volume_ids: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the pools in which volumes have live claims, or from which a copy has still to be purged."""
    claim, pool = models.Claim, models.Pool
    rows = session.execute(
        sa.select(claim.volume_id, pool.name)
        .join(pool, pool.id == claim.pool_id)
        .where(claim.volume_id.in_(volume_ids), claim.state.in_(pool_counters.LIVE))
    ).all()
    return {
        volume_id: frozenset(name for of_volume, name in rows if of_volume == volume_id) for volume_id in volume_ids
    }
