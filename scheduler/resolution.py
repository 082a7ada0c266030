# SPDX-License-Identifier: Apache-2.0
"""From a message to a request: what was asked for, with the volume, its type and the volumes it refers to looked up."""

import uuid
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity import places
from tonnage.capacity import units
from tonnage.capacity.decision import FilterOutcome
from tonnage.capacity.decision import NearestMiss
from tonnage.capacity.decision import Refusal
from tonnage.capacity.decision import Rejection
from tonnage.capacity.names import backend_of
from tonnage.capacity.request import Locality
from tonnage.capacity.request import Operation
from tonnage.capacity.request import Provisioning
from tonnage.capacity.request import Request
from tonnage.capacity.request import asked_provisioning
from tonnage.filters import affinity
from tonnage.filters import storage_class
from tonnage.ledger import bookings
from tonnage.ledger import counters
from tonnage.ledger import group_places
from tonnage.ledger import groups
from tonnage.ledger import models
from tonnage.ledger import parts
from tonnage.ledger.group_places import GroupPlace
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import ExtendVolume
from tonnage.rpc.messages import MigrateVolume
from tonnage.rpc.messages import RetypeVolume
from tonnage.scheduler.together import Group

#: Most characters of the id of a request.
_LONGEST_REQUEST_ID = 64

#: Hints that also count when a volume is moved: what it is and from where it is used does not change by that.
_LASTING = frozenset({*places.HINTS, storage_class.HINT})


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVolume(CreateVolume):
    """A request for a new volume that shall be where an instance runs, and where that is.

    Who knows that takes a while to answer, so it is found out before (:mod:`tonnage.scheduler.localities`).
    """

    locality: Locality


@dataclass(frozen=True, slots=True)
class Retry:
    """A volume whose last pool could not make it and that needs another. ``locality`` is as in :class:`LocalVolume`."""

    volume_id: str
    locality: Locality | None = None


class NothingToRetry(errors.NotFound):
    """A volume waits for a pool no more: another scheduler has placed it, or it is gone."""


@dataclass(frozen=True, slots=True)
class Move:
    """A volume that shall leave its pool: asked for, or because its type wants it elsewhere (``volume_type``).

    Nobody asks again for the answer of one that is not ``keyed``.
    """

    message: MigrateVolume
    volume_type: str | None = None
    keyed: bool = True

    @classmethod
    def for_type(cls, message: RetypeVolume) -> "Move":
        """Return the move that gives a volume another type; the answer that is kept is that of the retype."""
        move = MigrateVolume(request_id=message.request_id, volume_id=message.volume_id)
        return cls(move, message.volume_type, keyed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A request, with what its booking needs.

    The source is where the content comes from, of a clone or a volume that moves. Without ``keyed`` the answer is not
    kept.
    """

    request: Request
    volume_id: str
    target_size_gb: int
    new_volume: bookings.NewVolume | None = None
    source_volume_id: str | None = None
    source_pool_id: int | None = None
    #: What of a thin volume is written at once: GiB that are copied.
    copied_gb: int = 0
    volume_type_id: str | None = None
    keyed: bool = True
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the messages of a batch refer to: volume types by id and by name, volumes with their pools, groups by id."""

    types: Mapping[str, models.VolumeType]
    volumes: Mapping[str, models.Volume]
    #: Pools, by volume, that hold a copy of it or may do: what is ordered to go there would meet the one that comes.
    copies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    groups: Mapping[str, GroupPlace] = field(default_factory=dict)

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


def look_up(session: orm.Session, items: Sequence[CreateVolume | ExtendVolume | Retry | Move]) -> Lookup:
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
    for some in parts.cut(names):
        chosen = sa.select(kind).where(sa.or_(kind.id.in_(some), kind.name.in_(some)))
        found = session.scalars(chosen.options(orm.joinedload(kind.qos))).all()
        types.update({row.name: row for row in found})
        by_id.update({row.id: row for row in found})
    volumes: dict[str, models.Volume] = {}
    with_names = sa.select(volume).options(
        orm.joinedload(volume.pool), orm.joinedload(volume.volume_type).joinedload(kind.qos)
    )
    while ids:
        rows = [row for some in parts.cut(ids) for row in session.scalars(with_names.where(volume.id.in_(some)))]
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
        group_places.load(session, {group_id for group_id in named if group_id is not None}),
    )


def _copies(session: orm.Session, volume_ids: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the pools in which volumes have live claims, or from which a copy has still to be purged."""
    if not volume_ids:
        return {}
    claim, pool = models.Claim, models.Pool
    rows = session.execute(
        sa.select(claim.volume_id, pool.name)
        .join(pool, pool.id == claim.pool_id)
        .where(claim.volume_id.in_(volume_ids), claim.state.in_(counters.LIVE))
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
    return affinity.named(hints, affinity.SAME_HOST) + affinity.named(hints, affinity.DIFFERENT_HOST)


def create(message: CreateVolume, lookup: Lookup) -> Resolved:
    """Resolve a request for a new volume.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown volume type and for values out of range,
    :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict` for a source that is not
    there or cannot be cloned now.
    """
    _check_create(message)
    volume_type = None if message.volume_type is None else lookup.type(message.volume_type)
    group = None if message.group_id is None else _group(message.group_id, message.project_id, lookup)
    zone = message.availability_zone if group is None else group.availability_zone or message.availability_zone
    if group is not None and (volume_type is None or all(kind.id != volume_type.id for kind in group.volume_types)):
        raise errors.InvalidInput(
            f"volume type is {message.volume_type!r}: a volume of group {group.id} takes one that the group is for, "
            f"{', '.join(kind.name for kind in group.volume_types)}"
        )
    request = Request(
        request_id=message.request_id,
        size_gb=message.size_gb,
        project_id=message.project_id,
        availability_zone=zone,
        hints=message.hints,
        locality=message.locality if isinstance(message, LocalVolume) else None,
    )
    request = _of_type(request, volume_type)
    row = bookings.NewVolume(
        id=message.volume_id,
        size_gb=message.size_gb,
        project_id=message.project_id,
        user_id=message.user_id,
        name=message.name,
        description=message.description,
        volume_type_id=None if volume_type is None else volume_type.id,
        requested_zone=zone,
        source_volume_id=message.source_volume_id,
        metadata=message.metadata,
        hints=message.hints,
        group_id=message.group_id,
    )
    resolved = Resolved(
        request=_placed_by_hints(request, lookup),
        volume_id=message.volume_id,
        target_size_gb=message.size_gb,
        new_volume=row,
        group=None if group is None else _asking(group),
    )
    return resolved if message.source_volume_id is None else _clone(resolved, message.source_volume_id, lookup)


def probe(volume_type: str) -> CreateVolume:
    """Return a request that asks for what a volume type does. It is not meant to be placed."""
    return CreateVolume(request_id="", volume_id=str(uuid.uuid4()), size_gb=1, project_id="", volume_type=volume_type)


def extend(message: ExtendVolume, lookup: Lookup) -> Resolved:
    """Resolve a request to grow a volume.

    Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.Conflict` and
    :class:`~tonnage.capacity.errors.InvalidInput`.
    """
    volume = lookup.volume(message.volume_id)
    if volume.status != "available" or volume.pool is None:
        raise errors.Conflict(f"volume {volume.id} is {volume.status}: only an available volume can be extended")
    if not volume.size_gb < message.new_size_gb <= units.MAX_SIZE_GB:
        raise errors.InvalidInput(
            f"new size is {message.new_size_gb} GiB: it takes more than the current {volume.size_gb} GiB "
            f"and at most {units.MAX_SIZE_GB}"
        )
    request = replace(
        _request_of(volume, message.request_id),
        size_gb=message.new_size_gb - volume.size_gb,
        operation=Operation.EXTEND,
        provisioning=None if volume.provisioning is None else Provisioning(volume.provisioning),
        availability_zone=None,
        # These were about where to make it.
        hints={},
        pool=volume.pool.name,
    )
    return Resolved(request=request, volume_id=volume.id, target_size_gb=message.new_size_gb)


def retry(item: Retry, lookup: Lookup) -> Resolved:
    """Resolve what is left of a request after a pool has failed it.

    Raises :class:`NothingToRetry` if the volume does not wait for a pool any more,
    :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict` if what it is to be cloned
    from is gone or not to be had.
    """
    volume = lookup.volumes.get(item.volume_id)
    if volume is None or volume.status != "creating" or volume.pool_id is not None:
        raise NothingToRetry(f"volume {item.volume_id} no longer waits for a pool")
    request = replace(
        _placed_by_hints(_request_of(volume, volume.request_id), lookup),
        attempted=frozenset(volume.attempted_pools),
        locality=item.locality,
    )
    group = None if volume.group_id is None else _asking(_group(volume.group_id, volume.project_id, lookup))
    resolved = Resolved(request=request, volume_id=volume.id, target_size_gb=volume.size_gb, keyed=False, group=group)
    if volume.source_volume_id is None:
        return resolved
    return _clone(resolved, volume.source_volume_id, lookup)


def move(item: Move, lookup: Lookup) -> Resolved:
    """Resolve a request to move a volume to another pool.

    Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.Conflict` and
    :class:`~tonnage.capacity.errors.InvalidInput`.
    """
    message = item.message
    volume = lookup.volume(message.volume_id)
    if volume.status != "available" or volume.pool is None:
        raise errors.Conflict(f"volume {volume.id} is {volume.status}: only an available volume can be moved")
    groups.require_free(volume, "moved" if item.volume_type is None else "given another type")
    volume_type = volume.volume_type if item.volume_type is None else lookup.type(item.volume_type)
    asked = _of_type(_request_of(volume, message.request_id), volume_type)
    kept = None if volume.provisioning is None else Provisioning(volume.provisioning)
    to_pool = message.destination is not None and "#" in message.destination
    request = replace(
        asked,
        operation=Operation.MIGRATE,
        # What a type says nothing of stays as it is.
        provisioning=asked.provisioning or kept,
        availability_zone=volume.requested_zone,
        # Who uses the volume is where it was; what else was hinted at was about where to make it.
        hints={name: value for name, value in volume.hints.items() if name in _LASTING},
        attempted=lookup.copies.get(volume.id, frozenset()) | {volume.pool.name},
        pool=message.destination if to_pool else None,
        backend=None if to_pool else message.destination,
        copies=True,
    )
    return Resolved(
        request=request,
        volume_id=volume.id,
        target_size_gb=volume.size_gb,
        source_pool_id=volume.pool_id,
        copied_gb=volume.size_gb,
        volume_type_id=None if item.volume_type is None or volume_type is None else volume_type.id,
        keyed=item.keyed,
    )


def in_place(resolved: Resolved, pool: str) -> Request:
    """Return what a retype asks of the pool that the volume is in. Nothing has to fit there: it takes nothing on."""
    return replace(resolved.request, size_gb=0, attempted=frozenset(), pool=pool, copies=False)


def other_provisioning(request: Request, volume: models.Volume, would: Provisioning) -> Refusal:
    """Return the refusal of a retype in place that would make a thin volume thick, or a thick one thin."""
    pool = "" if volume.pool is None else volume.pool.name
    why = Rejection("other_provisioning", f"would make it {would}; it is {volume.provisioning}")
    return Refusal(request.describe(), 1, (FilterOutcome("retype", 1),), NearestMiss(pool, "retype", why), pool)


def _group(group_id: str, project_id: str, lookup: Lookup) -> GroupPlace:
    """Return the group that a volume is to be in. To a project, those of others are not there."""
    group = lookup.groups.get(group_id)
    if group is None or group.project_id != project_id:
        raise errors.NotFound(f"group {group_id} could not be found")
    if group.status != group_places.AVAILABLE:
        raise errors.Conflict(f"group {group_id} is {group.status}: no volume can be made in it")
    return group


def _asking(group: GroupPlace) -> Group:
    """Return what a group asks of the backend that it is to be on: for its own type, and for those of its volumes."""
    ask = Request("", 0, project_id=group.project_id, availability_zone=group.availability_zone)
    of_types = [_of_type(ask, kind) for kind in group.volume_types]
    return Group(id=group.id, backend=group.backend, asks=(replace(ask, extra_specs=group.specs), *of_types))


def _clone(resolved: Resolved, source_id: str, lookup: Lookup) -> Resolved:
    """A clone is made where its source is: drivers copy within their backend."""
    source = lookup.volumes.get(source_id)
    if source is None or source.pool is None:
        raise errors.NotFound(f"volume {source_id}, which is to be cloned, could not be found in any pool")
    if source.status not in ("available", "in-use"):
        raise errors.Conflict(f"volume {source_id} is {source.status}: only an available volume can be cloned")
    if resolved.target_size_gb < source.size_gb:
        raise errors.InvalidInput(
            f"size is {resolved.target_size_gb} GiB: a clone of volume {source_id} takes at least its {source.size_gb}"
        )
    return replace(
        resolved,
        request=replace(resolved.request, backend=backend_of(source.pool.name), copies=True),
        source_volume_id=source.id,
        source_pool_id=source.pool_id,
        copied_gb=source.size_gb,
    )


def _placed_by_hints(request: Request, lookup: Lookup) -> Request:
    """Look up where the volumes are that hints name, since filters look nothing up."""
    same = affinity.named(request.hints, affinity.SAME_HOST)
    different = affinity.named(request.hints, affinity.DIFFERENT_HOST)
    if not same and not different:
        return request
    return replace(
        request,
        same_backends=_backends(same, request.project_id, lookup) if same else None,
        different_backends=_backends(different, request.project_id, lookup) if different else None,
    )


def _backends(volume_ids: Sequence[str], project_id: str, lookup: Lookup) -> frozenset[str]:
    """Return where volumes are. To a project, those of others are not there: it is not told where they are."""
    found = (lookup.volumes.get(volume_id) for volume_id in volume_ids)
    return frozenset(
        backend_of(volume.pool.name)
        for volume in found
        if volume is not None and volume.pool is not None and volume.project_id == project_id
    )


def _request_of(volume: models.Volume, request_id: str) -> Request:
    request = Request(
        request_id=request_id,
        size_gb=volume.size_gb,
        project_id=volume.project_id,
        availability_zone=volume.requested_zone,
        hints=volume.hints,
    )
    return _of_type(request, volume.volume_type)


def _of_type(request: Request, volume_type: models.VolumeType | None) -> Request:
    """Return a request with what its volume type says of it, none if that is None."""
    specs = {} if volume_type is None else volume_type.extra_specs
    return replace(
        request,
        provisioning=asked_provisioning(specs),
        volume_type=None if volume_type is None else volume_type.name,
        extra_specs=specs,
        qos_specs={} if volume_type is None or volume_type.qos is None else volume_type.qos.specs,
    )


def _check_create(message: CreateVolume) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for what the ledger could not hold."""
    if not 1 <= message.size_gb <= units.MAX_SIZE_GB:
        raise errors.InvalidInput(f"size is {message.size_gb}: it takes 1 to {units.MAX_SIZE_GB} GiB")
    check_uuid(message.volume_id)
    check_length("request_id", message.request_id, _LONGEST_REQUEST_ID)
    for field_name in ("project_id", "user_id", "name", "description", "availability_zone"):
        check_length(field_name, getattr(message, field_name) or "", 255)


def check_request_id(request_id: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for what no request can be known by."""
    if not request_id or len(request_id) > _LONGEST_REQUEST_ID or "\0" in request_id:
        raise errors.InvalidInput(
            f"request_id is {request_id[:40]!r}: it takes 1 to {_LONGEST_REQUEST_ID} characters, none of them NUL, and "
            "each request has one of its own"
        )


def check_uuid(volume_id: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for anything but a UUID in its usual form."""
    try:
        plain = str(uuid.UUID(volume_id)) == volume_id
    except ValueError:
        plain = False
    if not plain:
        raise errors.InvalidInput(f"volume_id is {volume_id!r}: it takes a UUID in its usual form")


def check_length(name: str, value: str, most: int) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for text that is too long, or that no database keeps."""
    if len(value) > most or "\0" in value or any("\ud800" <= each <= "\udfff" for each in value):
        raise errors.InvalidInput(
            f"{name} is {value[:40]!r}...: it takes at most {most} characters of Unicode text, none of them NUL"
        )
