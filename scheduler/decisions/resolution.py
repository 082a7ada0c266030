# SPDX-License-Identifier: Apache-2.0
"""The resolution of messages: each becomes the specification of a request, by the rows that it refers to.

:func:`read_references` reads the rows of a whole batch at once: volume types, volumes with their pools, groups. Then
each message is resolved, and each of :data:`STEPS` that it asks for refines its specification.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors, type_specs, units
from tonnage.capacity.request import Operation, Provisioning, Request
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.claims import clone_sources, group_backends
from tonnage.ledger.db import dialects
from tonnage.ledger.inventory import listings
from tonnage.ledger.locks import pool_counters
from tonnage.rpc.messages import CreateGroup, CreateVolume, ExtendVolume, RetypeVolume
from tonnage.scheduler.requests import request_validation
from tonnage.scheduler.requests.placement_requests import Move, Retry, Single, Work
from tonnage.scheduler.requests.request_spec import (
    Lookup,
    RequestSpec,
    RequestStep,
    RetryLater,
    UnplacedVolume,
    request_of,
    with_type,
)
from tonnage.scheduler.steps import moves
from tonnage.scheduler.steps.affinity_hints import AffinityHints
from tonnage.scheduler.steps.clone_source import CloneSource
from tonnage.scheduler.steps.group_affinity import GroupMembership
from tonnage.scheduler.steps.locality import InstanceLocality

_HINTS = AffinityHints()

#: The steps in the order in which they are taken.
STEPS: tuple[tuple[str, RequestStep], ...] = (
    ("locality", InstanceLocality()),
    ("hints", _HINTS),
    ("group_id", GroupMembership()),
    ("source_volume_id", CloneSource()),
)


def steps_of(volume: UnplacedVolume) -> Iterator[RequestStep]:
    """Yield the steps that a request asks for."""
    for field, step in STEPS:
        if getattr(volume, field, None) not in (None, {}):
            yield step


def read_references(session: orm.Session, items: Sequence[Single]) -> Lookup:
    """Read the rows that the messages refer to."""
    names: set[str] = set()
    ids: set[str] = set()
    for item in items:
        if isinstance(item, CreateVolume):
            names.add(item.volume_type or "")
            ids.update(named for step in steps_of(item) for named in step.volume_ids(item))
        elif isinstance(item, Move):
            names.add(item.volume_type or "")
            ids.add(item.message.volume_id)
        else:
            ids.add(item.volume_id)
    names.discard("")
    ids.discard("")
    kept = {item.message.volume_id for item in items if isinstance(item, Move) and item.keeps_affinity}
    volumes = _volumes(session, ids, kept) if ids else {}
    group_ids = {item.group_id for item in items if isinstance(item, CreateVolume)}
    group_ids |= {row.group_id for row in volumes.values() if row.pool_id is None}
    group_ids.discard(None)
    extended = {item.volume_id for item in items if isinstance(item, ExtendVolume)}
    moved = {item.message.volume_id for item in items if isinstance(item, Move)}
    moved |= {id for id in extended if id in volumes and moves.may_move_to_grow(volumes[id])}
    moved |= _named([volumes[id] for id in kept & volumes.keys()])
    return Lookup(
        volume_types.read_specs(session, names) if names else {},
        volumes,
        _copies(session, moved) if moved else {},
        group_backends.load(session, {group_id for group_id in group_ids if group_id is not None}) if group_ids else {},
        clone_sources.being_cloned(session, extended) if extended else {},
    )


def _named(volumes: Iterable[models.Volume]) -> set[str]:
    """Return the ids of the volumes that the hints of volumes name."""
    return {volume_id for volume in volumes for volume_id in _HINTS.volume_ids(volume)}


def _volumes(session: orm.Session, ids: set[str], kept: Collection[str]) -> dict[str, models.Volume]:
    """Return volumes by id, and the volumes that waiting ones among them refer to in turn.

    Those that volumes of ``kept`` name by their hints are read too.
    """
    volume_type, volume = models.VolumeType, models.Volume
    volumes: dict[str, models.Volume] = {}
    with_names = sa.select(volume).options(
        orm.joinedload(volume.pool), orm.joinedload(volume.volume_type).joinedload(volume_type.qos)
    )
    while ids:
        rows = [
            row for chunk in dialects.in_chunks(ids) for row in session.scalars(with_names.where(volume.id.in_(chunk)))
        ]
        volumes.update({row.id: row for row in rows})
        waiting = [row for row in rows if row.pool_id is None]
        ids = {named for row in waiting for step in steps_of(row) for named in step.volume_ids(row)}
        ids |= _named([row for row in rows if row.id in kept])
        ids -= volumes.keys()
    return volumes


def _copies(session: orm.Session, volume_ids: Collection[str]) -> dict[str, frozenset[str]]:
    """Return the pools in which volumes have live claims, or which have a copy by the last listings.

    A copy that the ledger does not count may be the volume itself, if an older ledger was restored. A migration that is
    given up orders the purge of the copy in its target, so it never begins there.
    """
    claim, pool, table = models.Claim, models.Pool, models.Discrepancy
    pools: dict[str, set[str]] = {volume_id: set() for volume_id in volume_ids}
    for chunk in dialects.in_chunks(pools):
        claimed = (
            sa.select(claim.volume_id, pool.name)
            .join(pool, pool.id == claim.pool_id)
            .where(claim.volume_id.in_(chunk), claim.state.in_(pool_counters.LIVE))
        )
        listed = (
            sa.select(table.volume_id, pool.name)
            .join(pool, pool.id == table.pool_id)
            .where(table.volume_id.in_(chunk), table.category.in_(listings.EXTERNAL))
        )
        for statement in (claimed, listed):
            for volume_id, name in session.execute(statement):
                pools[volume_id].add(name)
    return {volume_id: frozenset(names) for volume_id, names in pools.items()}


def resolve(item: Work, lookup: Lookup) -> list[RequestSpec]:
    """Return the specification of each volume of a request. Raises the errors of the function for its kind."""
    if isinstance(item, CreateVolume):
        return [resolve_create(item, lookup)]
    if isinstance(item, ExtendVolume):
        return [resolve_extend(item, lookup)]
    if isinstance(item, Retry):
        return [resolve_retry(item, lookup)]
    if isinstance(item, CreateGroup):
        return resolve_group(item, lookup)
    return [moves.resolve_move(Move.for_type(item) if isinstance(item, RetypeVolume) else item, lookup)]


def resolve_create(message: CreateVolume, lookup: Lookup) -> RequestSpec:
    """Resolve a request for a new volume.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown volume type and for values out of range, and
    the errors of the steps that apply.
    """
    request_validation.check_new_volume(message)
    volume_type = None if message.volume_type is None else lookup.type(message.volume_type)
    request = Request(
        request_id=message.request_id,
        size_gb=message.size_gb,
        project_id=message.project_id,
        availability_zone=message.availability_zone,
        hints=message.hints,
    )
    spec = RequestSpec(
        request=request if volume_type is None else with_type(request, volume_type),
        volume_id=message.volume_id,
        target_size_gb=message.size_gb,
        new_volume=message,
        volume_type_id=None if volume_type is None else volume_type.id,
    )
    for step in steps_of(message):
        spec = step.refine(spec, message, lookup)
    if volume_type is not None:
        type_specs.require_size(volume_type.extra_specs, volume_type.name, spec.target_size_gb)
        type_specs.require_zone(volume_type.extra_specs, volume_type.name, spec.request.availability_zone)
    return spec


def resolve_group(item: CreateGroup, lookup: Lookup) -> list[RequestSpec]:
    """Resolve a request for several new volumes at once.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for a request for no volume or for the same volume twice, and
    the errors of :func:`resolve_create`.
    """
    request_validation.check_length("request_id", item.request_id, 64)
    ids = [message.volume_id for message in item.volumes]
    if not ids or len(set(ids)) != len(ids):
        raise errors.InvalidInput("a group takes at least one volume, and each has an id of its own")
    return [resolve_create(replace(message, request_id=item.request_id), lookup) for message in item.volumes]


def resolve_extend(message: ExtendVolume, lookup: Lookup) -> RequestSpec:
    """Resolve a request to grow a volume.

    Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.Conflict` and
    :class:`~tonnage.capacity.errors.InvalidInput`.
    """
    volume = lookup.volume(message.volume_id)
    if volume.status != "available" or volume.pool is None:
        raise errors.Conflict(f"volume {volume.id} is {volume.status}: only an available volume can be extended")
    if volume.id in lookup.cloned:
        # The clone would take more than was claimed for it.
        raise errors.Conflict(
            f"volume {volume.id} is being cloned: it can be extended once volume {lookup.cloned[volume.id]} is made"
        )
    if not volume.size_gb < message.new_size_gb <= units.MAX_SIZE_GB:
        raise errors.InvalidInput(
            f"new size is {message.new_size_gb} GiB: it takes more than the current {volume.size_gb} GiB "
            f"and at most {units.MAX_SIZE_GB}"
        )
    if volume.volume_type is not None:
        type_specs.require_size(volume.volume_type.extra_specs, volume.volume_type.name, message.new_size_gb)
    request = replace(
        request_of(volume, message.request_id),
        size_gb=message.new_size_gb - volume.size_gb,
        operation=Operation.EXTEND,
        provisioning=None if volume.provisioning is None else Provisioning(volume.provisioning),
        availability_zone=None,
        # The hints were about the place where it was made.
        hints={},
        pool=volume.pool.name,
    )
    return RequestSpec(request=request, volume_id=volume.id, target_size_gb=message.new_size_gb)


def resolve_retry(item: Retry, lookup: Lookup) -> RequestSpec:
    """Resolve the rest of a request after a pool has failed it.

    Raises :class:`~tonnage.scheduler.requests.request_spec.RetryLater` if the volume no longer waits for a pool, and
    the errors of the steps that apply.
    """
    volume = lookup.volumes.get(item.volume_id)
    if volume is None or volume.status != "creating" or volume.pool_id is not None:
        raise RetryLater(f"volume {item.volume_id} no longer waits for a pool")
    request = replace(
        request_of(volume, volume.request_id),
        attempted=frozenset(volume.attempted_pools),
        locality=item.locality,
    )
    spec = RequestSpec(request=request, volume_id=volume.id, target_size_gb=volume.size_gb)
    for step in steps_of(volume):
        spec = step.refine(spec, volume, lookup)
    return spec


def type_request(session: orm.Session, volume_type: str) -> Request:
    """Return a request for the features of a volume type, by its id or name. It is not meant to be placed.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown type.
    """
    lookup = Lookup(volume_types.read_specs(session, [volume_type]), {})
    return with_type(Request(request_id="", size_gb=1), lookup.type(volume_type))
