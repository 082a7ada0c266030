# SPDX-License-Identifier: Apache-2.0
"""The resolution of messages: each becomes the specification of a request, by the rows that it refers to."""

import uuid
from dataclasses import replace

from tonnage.capacity import errors, units
from tonnage.capacity.request import Operation, Provisioning, Request
from tonnage.rpc.messages import CreateGroup, CreateVolume, ExtendVolume, RetypeVolume
from tonnage.scheduler import request_validation
from tonnage.scheduler.decisions.placement_requests import Move, Retry, Work
from tonnage.scheduler.decisions.request_spec import (
    Lookup,
    NotNow,
    RequestSpec,
    UnplacedVolume,
    request_of,
    with_type,
)
from tonnage.scheduler.decisions.steps import moves
from tonnage.scheduler.decisions.steps.registry import steps_of


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
    return _refined(spec, message, lookup)


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

    Raises :class:`~tonnage.scheduler.decisions.request_spec.NotNow` if the volume no longer waits for a pool, and the
    errors of the steps that apply.
    """
    volume = lookup.volumes.get(item.volume_id)
    if volume is None or volume.status != "creating" or volume.pool_id is not None:
        raise NotNow(f"volume {item.volume_id} no longer waits for a pool")
    request = replace(
        request_of(volume, volume.request_id),
        attempted=frozenset(volume.attempted_pools),
        locality=item.locality,
    )
    spec = RequestSpec(request=request, volume_id=volume.id, target_size_gb=volume.size_gb)
    return _refined(spec, volume, lookup)


def type_probe(volume_type: str) -> CreateVolume:
    """Return a request that asks for the features of a volume type. It is not meant to be placed."""
    return CreateVolume(request_id="", volume_id=str(uuid.uuid4()), size_gb=1, project_id="", volume_type=volume_type)


def _refined(spec: RequestSpec, volume: UnplacedVolume, lookup: Lookup) -> RequestSpec:
    for step in steps_of(volume):
        spec = step.refine(spec, volume, lookup)
    return spec
