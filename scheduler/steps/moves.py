# SPDX-License-Identifier: Apache-2.0
"""The step of requests for volumes that move to another pool, or get another type or size in the pool they are in."""

from dataclasses import replace

from tonnage.capacity import errors, type_specs
from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal, Rejection
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import LOCAL_TO_INSTANCE, Locality, Operation, Provisioning, Request
from tonnage.capacity.topology import requirements
from tonnage.filters import affinity, storage_class
from tonnage.ledger import models
from tonnage.ledger.catalog import groups
from tonnage.ledger.inventory.pending_claims import SourceVolume
from tonnage.rpc.messages import ExtendVolume, MigrateVolume
from tonnage.scheduler.requests.placement_requests import Move
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec, request_of, with_type
from tonnage.scheduler.steps import affinity_hints

#: Hints that also count when a volume moves: its content and the place of its use stay the same.
_LASTING = frozenset({*requirements.HINTS, storage_class.HINT})

#: Those about other volumes and an instance, which hold for the moves that keep the affinity.
_AFFINITY = frozenset({affinity.SAME_HOST, affinity.DIFFERENT_HOST, LOCAL_TO_INSTANCE})

#: Colons in a ``location_info`` that names a place on a machine, ``driver:host:place``, and not the machine alone.
_PLACE = 2


def resolve_move(item: Move, lookup: Lookup) -> RequestSpec:
    """Resolve a request to move a volume to another pool.

    Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.Conflict` and
    :class:`~tonnage.capacity.errors.InvalidInput`.
    """
    message = item.message
    volume = lookup.volume(message.volume_id)
    action = "moved" if item.volume_type is None else "retyped"
    if volume.status != "available" or volume.pool is None:
        raise errors.Conflict(f"volume {volume.id} is {volume.status}: only an available volume can be {action}")
    groups.require_free(volume, action)
    volume_type = volume.volume_type if item.volume_type is None else lookup.type(item.volume_type)
    if item.volume_type is not None and volume_type is not None:
        type_specs.require_size(volume_type.extra_specs, volume_type.name, volume.size_gb)
        type_specs.require_zone(volume_type.extra_specs, volume_type.name, volume.requested_zone)
    base_request = with_type(request_of(volume, message.request_id), volume_type)
    kept = None if volume.provisioning is None else Provisioning(volume.provisioning)
    to_pool = message.destination is not None and "#" in message.destination
    request = replace(
        base_request,
        operation=Operation.MIGRATE,
        # Where the type says nothing, it stays as it is.
        provisioning=base_request.provisioning or kept,
        availability_zone=volume.requested_zone,
        # The other hints were about the place where it was made.
        hints={
            name: value
            for name, value in volume.hints.items()
            if name in _LASTING or (item.keeps_affinity and name in _AFFINITY)
        },
        attempted=lookup.copies.get(volume.id, frozenset()) | {volume.pool.name},
        pool=message.destination if to_pool else None,
        backend=None if to_pool else message.destination,
        copies=True,
    )
    if item.keeps_affinity:
        # It stays near the instance, on the host where it is.
        host = backend_of(volume.pool.name).partition("@")[0]
        request = replace(affinity_hints.with_backends(request, volume, lookup), locality=Locality(host))
    return RequestSpec(
        request=request,
        volume_id=volume.id,
        target_size_gb=volume.size_gb,
        source=SourceVolume(volume_id=volume.id, pool_name=volume.pool.name, size_gb=volume.size_gb),
        source_pool_id=volume.pool_id,
        copied_gb=volume.size_gb,
        volume_type_id=None if item.volume_type is None or volume_type is None else volume_type.id,
    )


def may_move_to_grow(volume: models.Volume) -> bool:
    """Return whether the type of a volume allows it to move to another pool when it grows."""
    return volume.volume_type is not None and type_specs.extends_by_migration(volume.volume_type.extra_specs)


def resolve_growth(message: ExtendVolume, lookup: Lookup) -> RequestSpec | None:
    """Resolve a request to grow a volume as a move to another pool: its copy there has the new size.

    Return None for a volume whose type does not allow that, and for one that cannot be moved. Raises
    :class:`~tonnage.capacity.errors.NotFound`.
    """
    if not may_move_to_grow(lookup.volume(message.volume_id)):
        return None
    move = MigrateVolume(request_id=message.request_id, volume_id=message.volume_id)
    try:
        spec = resolve_move(Move(move), lookup)
    except errors.Conflict:
        return None
    size_gb = message.new_size_gb
    return replace(spec, request=replace(spec.request, size_gb=size_gb), target_size_gb=size_gb)


def in_place(spec: RequestSpec) -> Request:
    """Return the request that a retype makes of the volume's own pool. Nothing has to fit: it takes no more room."""
    pool = "" if spec.source is None else spec.source.pool_name
    return replace(spec.request, size_gb=0, attempted=frozenset(), pool=pool, copies=False)


def other_provisioning(request: Request, volume: models.Volume, new_provisioning: Provisioning) -> Refusal:
    """Return the refusal of a retype in place that would make a thin volume thick, or a thick one thin."""
    pool = "" if volume.pool is None else volume.pool.name
    why = Rejection("other_provisioning", f"would make it {new_provisioning}; it is {volume.provisioning}")
    return Refusal(request.describe(), 1, (FilterOutcome("retype", 1),), NearestMiss(pool, "retype", why), pool)


def without_source(pools: PoolTable, request: Request, source: str) -> Request:
    """Exclude the location of the pool ``source`` from the request of a move, also under other pool names.

    A copy there would be the volume itself.
    """
    pool = pools.get(source)
    location = None if pool is None else pool.capabilities.get("location_info")
    # Pools whose location names no more than a machine are told apart by their driver alone.
    if str(location).count(":") < _PLACE:
        return request
    same = {
        name
        for name, capabilities in zip(pools.names, pools.capabilities, strict=True)
        if capabilities.get("location_info") == location
    }
    return replace(request, attempted=request.attempted | same)
