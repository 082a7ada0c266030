# SPDX-License-Identifier: Apache-2.0
"""What requests refer to, read from the ledger at once: volume types, volumes with their pools, groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.filters import affinity
from tonnage.ledger import models
from tonnage.ledger.claims import clone_sources, group_backends, pool_counters
from tonnage.ledger.claims.group_backends import GroupPlace
from tonnage.ledger.db import chunks
from tonnage.rpc.messages import CreateVolume, ExtendVolume
from tonnage.scheduler.decisions.affinity_order import Bonds
from tonnage.scheduler.decisions.placement_requests import Move, Single


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the messages of a batch refer to: volume types by id and by name, volumes with their pools, groups by id."""

    types: Mapping[str, models.VolumeType]
    volumes: Mapping[str, models.Volume]
    #: Pools, by volume, that hold a copy of it or may do: what is ordered to go there would meet the one that comes.
    copies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    groups: Mapping[str, GroupPlace] = field(default_factory=dict)
    #: Volumes to be extended of which a clone is being made, each with a clone.
    cloned: Mapping[str, str] = field(default_factory=dict)
    bonds: Bonds = field(default_factory=lambda: Bonds({}))

    def type(self, name: str) -> models.VolumeType:
        """Return a volume type by its id or name, or raise :class:`~tonnage.capacity.errors.InvalidInput`."""
        found = self.types.get(name)
        if found is None:
            raise errors.InvalidInput(f"volume type {name!r} could not be found")
        return found

    def volume(self, volume_id: str) -> models.Volume:
        """Return a volume, or raise :class:`~tonnage.capacity.errors.NotFound`."""
        found = self.volumes.get(volume_id)
        if found is None:
            raise errors.NotFound(f"volume {volume_id} could not be found")
        return found


def look_up(session: orm.Session, items: Sequence[Single]) -> Lookup:
    """Read all that the messages refer to."""
    names: set[str] = set()
    ids: set[str] = set()
    for item in items:
        if isinstance(item, CreateVolume):
            names.add(item.volume_type or "")
            ids.update(_named(item.hints))
            ids.add(item.source_volume_id or "")
        elif isinstance(item, Move):
            names.add(item.volume_type or "")
            ids.add(item.message.volume_id)
        else:
            ids.add(item.volume_id)
    names.discard("")
    ids.discard("")
    kind, volume = models.VolumeType, models.Volume
    types: dict[str, models.VolumeType] = {}
    by_id: dict[str, models.VolumeType] = {}
    for some in chunks.cut(names):
        chosen = sa.select(kind).where(sa.or_(kind.id.in_(some), kind.name.in_(some)))
        found = session.scalars(chosen.options(orm.joinedload(kind.qos))).all()
        types.update({row.name: row for row in found})
        by_id.update({row.id: row for row in found})
    volumes: dict[str, models.Volume] = {}
    with_names = sa.select(volume).options(
        orm.joinedload(volume.pool), orm.joinedload(volume.volume_type).joinedload(kind.qos)
    )
    while ids:
        rows = [row for some in chunks.cut(ids) for row in session.scalars(with_names.where(volume.id.in_(some)))]
        volumes.update({row.id: row for row in rows})
        # One that waits for a pool may be a clone, or refer to others in its turn.
        waiting = [row for row in rows if row.pool_id is None]
        ids = {row.source_volume_id for row in waiting if row.source_volume_id is not None}
        for row in waiting:
            ids.update(_named(row.hints))
        ids -= volumes.keys()
        if not waiting:
            break
    named = {item.group_id for item in items if isinstance(item, CreateVolume)}
    named |= {row.group_id for row in volumes.values() if row.pool_id is None}
    # An id wins over a name.
    return Lookup(
        types | by_id,
        volumes,
        _copies(session, [item.message.volume_id for item in items if isinstance(item, Move)]),
        group_backends.load(session, {group_id for group_id in named if group_id is not None}),
        clone_sources.being_cloned(session, {item.volume_id for item in items if isinstance(item, ExtendVolume)}),
        Bonds(volumes),
    )


def _copies(session: orm.Session, volume_ids: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the pools in which volumes have live claims, or from which a copy has still to be purged."""
    if not volume_ids:
        return {}
    claim, pool = models.Claim, models.Pool
    rows = session.execute(
        sa.select(claim.volume_id, pool.name)
        .join(pool, pool.id == claim.pool_id)
        .where(claim.volume_id.in_(volume_ids), claim.state.in_(pool_counters.LIVE))
    ).all()
    return {
        volume_id: frozenset(name for of_volume, name in rows if of_volume == volume_id) for volume_id in volume_ids
    }


def hints_of(session: orm.Session, volume_id: str) -> tuple[str, Mapping[str, object]]:
    """Return the project of a volume and the hints that it was asked for with; none if it is gone."""
    query = sa.select(models.Volume.project_id, models.Volume.hints).where(models.Volume.id == volume_id)
    row = session.execute(query).one_or_none()
    return ("", {}) if row is None else (row.project_id, row.hints or {})


def _named(hints: Mapping[str, object]) -> list[str]:
    """Return the volumes that hints name."""
    return affinity.hinted_volumes(hints, affinity.SAME_HOST) + affinity.hinted_volumes(hints, affinity.DIFFERENT_HOST)
