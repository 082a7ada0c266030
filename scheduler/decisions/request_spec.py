# SPDX-License-Identifier: Apache-2.0
"""From a message to a request: what was asked for, with the volume, its type and the volumes it refers to."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tonnage.capacity import errors, units
from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal, Rejection
from tonnage.capacity.names import backend_of
from tonnage.capacity.request import Operation, Provisioning, Request, asked_provisioning
from tonnage.capacity.topology import requirements
from tonnage.filters import affinity, storage_class
from tonnage.ledger import models
from tonnage.ledger.catalog import groups
from tonnage.ledger.claims import bookings, clone_sources, group_backends
from tonnage.ledger.claims.group_backends import GroupPlace
from tonnage.rpc.messages import CreateVolume, ExtendVolume
from tonnage.scheduler import request_validation
from tonnage.scheduler.decisions.group_affinity import Group
from tonnage.scheduler.decisions.lookups import Lookup
from tonnage.scheduler.decisions.placement_requests import LocalVolume, Move, Retry, Single

#: Hints that also count when a volume is moved: what it is and from where it is used does not change by that.
_LASTING = frozenset({*requirements.HINTS, storage_class.HINT})


class NotNow(errors.Conflict):
    """A volume is not tried again now: it has a place or is gone, or it waits for another that hints bind it to."""


class NotFirst(NotNow):
    """A volume waits for another that has no pool yet either."""


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
    #: Of a volume that is tried again: one that hints name and that may go elsewhere yet, so that no refusal is final.
    unsettled: str | None = None
    #: And the pools of those that hints name: what is decided holds while they are there.
    bound: Mapping[str, int | None] = field(default_factory=dict)


def resolve(item: Single, lookup: Lookup) -> Resolved:
    """Return the request that an item stands for. Raises what the function for its kind does."""
    if isinstance(item, CreateVolume):
        return create(item, lookup)
    if isinstance(item, ExtendVolume):
        return extend(item, lookup)
    if isinstance(item, Retry):
        return retry(item, lookup)
    return move(item, lookup)


def create(message: CreateVolume, lookup: Lookup) -> Resolved:
    """Resolve a request for a new volume.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown volume type and for values out of range,
    :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict` for a source that is not
    there or cannot be cloned now.
    """
    request_validation.check_new_volume(message)
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

    Raises :class:`NotNow` if the volume does not wait for a pool any more, or for another volume,
    :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict` if what it is to be cloned
    from is gone or not to be had.
    """
    volume = lookup.volumes.get(item.volume_id)
    if volume is None or volume.status != "creating" or volume.pool_id is not None:
        raise NotNow(f"volume {item.volume_id} no longer waits for a pool")
    other = lookup.bonds.ahead(volume)
    if other is not None:
        raise NotFirst(f"volume {volume.id} waits until volume {other} has a pool")
    request = replace(
        _placed_by_hints(_request_of(volume, volume.request_id), lookup),
        attempted=frozenset(volume.attempted_pools),
        locality=item.locality,
    )
    if lookup.bonds.beside(volume):
        # They follow to where this one goes.
        request = replace(request, same_backends=None)
    group = None if volume.group_id is None else _asking(_group(volume.group_id, volume.project_id, lookup))
    resolved = Resolved(
        request=request,
        volume_id=volume.id,
        target_size_gb=volume.size_gb,
        keyed=False,
        group=group,
        unsettled=lookup.bonds.unsettled(volume),
        bound=lookup.bonds.places(volume),
    )
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
    if group.status != group_backends.AVAILABLE:
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
    if source.status not in clone_sources.CLONEABLE:
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
    same = affinity.hinted_volumes(request.hints, affinity.SAME_HOST)
    different = affinity.hinted_volumes(request.hints, affinity.DIFFERENT_HOST)
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
