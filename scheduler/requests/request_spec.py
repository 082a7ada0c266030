# SPDX-License-Identifier: Apache-2.0
"""The specification of a request: the capacity that is asked for, with everything that its booking needs.

A message becomes a specification in :mod:`tonnage.scheduler.decisions.resolution`. Features that only some requests use
are steps: see :class:`RequestStep`.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tonnage.capacity import errors
from tonnage.capacity.request import Request, requested_provisioning
from tonnage.capacity.volume_request import CreateVolume
from tonnage.ledger import models
from tonnage.ledger.catalog.volume_types import TypeSpecs
from tonnage.ledger.claims.group_backends import GroupState
from tonnage.ledger.inventory.pending_claims import SourceVolume
from tonnage.scheduler.requests.affinity_order import AffinityOrder


class RetryLater(errors.Conflict):
    """A volume is not tried again now: it has a pool, is gone, or waits for a volume that its hints name."""


class WaitsForVolume(RetryLater):
    """A volume waits for another volume that has no pool yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group that volumes are placed for. ``backend`` is the backend of its volumes, None while none has a pool.

    The backend needs a pool for each of ``asks``: requests of size 0, one for the group's type and each volume type.
    """

    id: str
    backend: str | None
    asks: tuple[Request, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """A request for one volume, with the data of its booking.

    ``source`` is the volume that the content is copied from: the source of a clone, or the volume itself if it moves.
    ``clone_of`` is the id of a clone's source.
    """

    request: Request
    volume_id: str
    target_size_gb: int
    new_volume: CreateVolume | None = None
    source: SourceVolume | None = None
    source_pool_id: int | None = None
    #: How many GiB of a thin volume are written when it is made.
    copied_gb: int = 0
    clone_of: str | None = None
    #: The type of a new volume, or the other type that a volume gets by a move.
    volume_type_id: str | None = None
    group: Group | None = None
    #: Only for a volume that is tried again: a volume named by its hints that may still move to another pool. No
    #: refusal is final until that volume is created.
    waits_for: str | None = None
    #: The pools of the volumes that hints name. The booking fails if one of them has changed.
    hint_targets: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Lookup:
    """The rows that the messages of a batch refer to.

    ``types`` has volume types by id and by name, ``volumes`` volumes by id with their pools, ``groups`` groups by id.
    """

    types: Mapping[str, TypeSpecs]
    volumes: Mapping[str, models.Volume]
    #: By volume, the pools that hold or may hold a copy of it. A new copy there could be deleted by the pending purge
    #: of the old one.
    copies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    #: By volume that is to be extended and is being cloned, the id of a clone.
    cloned: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def affinity_order(self) -> AffinityOrder:
        """The retry order of volumes whose affinity hints refer to each other."""
        return AffinityOrder(self.volumes)

    def type(self, name: str) -> TypeSpecs:
        """Return a volume type by its id or name, or raise :class:`~tonnage.capacity.errors.InvalidInput`."""
        volume_type = self.types.get(name)
        if volume_type is None:
            raise errors.InvalidInput(
                f"volume type {name!r} could not be found: name another volume_type, or have the operator create it "
                "(a request without one gets the type that the option default_volume_type names)"
            )
        return volume_type

    def volume(self, volume_id: str) -> models.Volume:
        """Return a volume, or raise :class:`~tonnage.capacity.errors.NotFound`."""
        volume = self.volumes.get(volume_id)
        if volume is None:
            raise errors.NotFound(f"volume {volume_id} could not be found")
        return volume


class UnplacedVolume(Protocol):
    """A volume that has no pool: the message for a new one, or the row of one that is tried again."""

    @property
    def project_id(self) -> str: ...

    @property
    def hints(self) -> Mapping[str, Any]: ...

    @property
    def source_volume_id(self) -> str | None: ...

    @property
    def group_id(self) -> str | None: ...


class RequestStep(Protocol):
    """A feature of requests for new volumes, which a request that does not ask for it never enters.

    :data:`tonnage.scheduler.decisions.resolution.STEPS` has all of them.
    """

    def volume_ids(self, volume: UnplacedVolume) -> Iterable[str]:
        """Return the ids of other volumes that :meth:`refine` needs to know."""
        ...

    def refine(self, spec: RequestSpec, volume: UnplacedVolume, lookup: Lookup) -> RequestSpec:
        """Return the specification with the consequences of the feature.

        Raises the errors that the feature answers an impossible request with.
        """
        ...


def with_type(request: Request, volume_type: TypeSpecs | models.VolumeType | None) -> Request:
    """Return a request with the specs of its volume type, with none if that is None."""
    specs = {} if volume_type is None else volume_type.extra_specs
    return replace(
        request,
        provisioning=requested_provisioning(specs),
        volume_type=None if volume_type is None else volume_type.name,
        extra_specs=specs,
        qos_specs={} if volume_type is None else volume_type.qos_specs,
    )


def request_of(volume: models.Volume, request_id: str) -> Request:
    """Return the request that a volume was made by, as its row and its type are now."""
    request = Request(
        request_id=request_id,
        size_gb=volume.size_gb,
        project_id=volume.project_id,
        availability_zone=volume.requested_zone,
        hints=volume.hints,
    )
    return with_type(request, volume.volume_type)
