# SPDX-License-Identifier: Apache-2.0
"""The conversion of bodies into requests to the scheduler, with the types, volumes and groups that they name."""

import hashlib
import logging
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from oslo_context.context import RequestContext

from tonnage.api.auth import policies
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http import microversions
from tonnage.api.http.annotations import Header
from tonnage.api.http.body import convert
from tonnage.api.http.http_request import Request
from tonnage.api.schemas import fields, simulation_bodies, volume_bodies
from tonnage.capacity import errors, type_conversion
from tonnage.capacity.reports.hypothetical_pools import Changes
from tonnage.ledger.catalog import groups, volume_types, volumes
from tonnage.ledger.catalog.volume_decisions import VolumeDecisions
from tonnage.rpc.messages import (
    CreateGroup,
    CreateVolume,
    ExtendVolume,
    MigrateVolume,
    MigrationPolicy,
    RetypeVolume,
    SimulatedRequest,
    WhatIf,
)

LOG = logging.getLogger(__name__)

_MAX_KEY_LENGTH = 255

#: The header with the key of a request. Requests with the same key are repetitions of one request.
IDEMPOTENCY_KEY = Header(
    name="Idempotency-Key",
    description="Requests of one project with the same key are one request. With another body the answer is 422.",
    pattern=rf"^[!-~]([ -~]{{0,{_MAX_KEY_LENGTH - 2}}}[!-~])?$",
)

#: The namespace of volume ids that are derived from request ids.
_NAMESPACE = uuid.UUID("6f0b8c1e-3d52-4a97-9c84-51e7d2a0b36f")

#: Hints whose values are ids of volumes or, in a request for several volumes, indexes of its list.
_VOLUME_HINTS = ("same_host", "different_host")


@dataclass(frozen=True, slots=True)
class _RequestKey:
    """The id of a request, and the fingerprint of its body if the sender may repeat it, otherwise None."""

    request_id: str
    fingerprint: str | None = None

    def volume_id(self, index: int) -> str:
        """Return the id of a volume of the request.

        The id is random, or derived from the fingerprint. So a repetition has the same volumes, and the ledger tells a
        different request with the same request id by its volumes.
        """
        if self.fingerprint is None:
            return str(uuid.uuid4())
        return str(uuid.uuid5(_NAMESPACE, f"{self.request_id}/{self.fingerprint}/{index}"))


class RequestReader:
    """Converts bodies into requests. ``default_type`` is the option ``default_volume_type``, None or empty for none.

    Its methods raise :class:`~tonnage.capacity.errors.InvalidInput` and, for a type, a volume or a group that the user
    cannot see, :class:`~tonnage.capacity.errors.NotFound`.
    """

    def __init__(self, context: ResourceContext, default_type: str | None) -> None:
        self._context, self._default_type = context, default_type or None

    def read_create(self, req: Request) -> CreateVolume | CreateGroup:
        """Return the request for a new volume (key ``volume``) or for several, all or none (key ``volumes``)."""
        sent, identity = self._context.bodies.decode(req), req.context.identity
        sent_key = req.get_header(IDEMPOTENCY_KEY.name)
        if "volumes" not in sent:
            body = convert(sent, _create_body_type(req))
            new_volume, hints = body.volume, body.all_hints()
            return self._create_volume(new_volume, hints, identity, _request_key(identity, sent_key, new_volume, hints))
        if "volume" in sent:
            raise errors.InvalidInput("the body has both volume and volumes: send one of them")
        bodies = convert(sent, volume_bodies.CreateVolumes)
        key = _request_key(identity, sent_key, bodies.volumes, bodies.all_hints())
        return self._create_group(bodies, identity, key)

    def read_explain(self, req: Request) -> SimulatedRequest:
        """Return the request to explain, from one of :data:`tonnage.api.schemas.simulation_bodies.REQUEST_BODIES`."""
        sent, identity = self._context.bodies.decode(req), req.context.identity
        return self._simulated(sent, identity, _RequestKey(identity.request_id or ""), _create_body_type(req))

    def read_what_if(self, req: Request) -> WhatIf:
        """Return a simulation of several requests, with the assumed changes."""
        sent = self._context.bodies.read(req, simulation_bodies.WhatIf)
        identity = req.context.identity
        simulated = []
        for index, item in enumerate(sent.requests):
            try:
                # Each request has its own id, because the id seeds random choices.
                simulated.append(self._simulated(item, identity, _RequestKey(f"{identity.request_id}.{index}")))
            except errors.InvalidInput as error:
                raise errors.InvalidInput(f"requests[{index}]: {error.message}") from None
        changes = type_conversion.convert(sent.changes, Changes, from_attributes=True)
        return WhatIf(requests=simulated, changes=changes, detail=sent.detail, apart=sent.independent)

    def repeat(self, decisions: VolumeDecisions, identity: RequestContext) -> CreateVolume | None:
        """Return the request for a volume again, in its project; None if the ledger does not have it."""
        if decisions.request_body is None:
            return None
        simulated = self._simulated(dict(decisions.request_body), identity, _RequestKey(identity.request_id or ""))
        return None if simulated.create is None else replace(simulated.create, project_id=decisions.project_id)

    def type_id(self, name: str, identity: RequestContext) -> str:
        """Return the id of the volume type with that id or name."""
        with self._context.database.reading() as session:
            return volume_types.find(session, name, self._context.policy.visible_project(identity)).id

    def _simulated(
        self,
        sent: dict[str, Any],
        identity: RequestContext,
        key: _RequestKey,
        create_body_type: type[volume_bodies.CreateVolume] = volume_bodies.CreateVolume,
    ) -> SimulatedRequest:
        keys = sorted(simulation_bodies.REQUEST_BODIES.keys() & sent.keys())
        if len(keys) > 1:
            raise errors.InvalidInput(f"the body has {' and '.join(keys)}: send one of them")
        body: simulation_bodies.RequestBody = convert(
            sent, create_body_type if keys in ([], ["volume"]) else simulation_bodies.REQUEST_BODIES[keys[0]]
        )
        if isinstance(body, volume_bodies.CreateVolume):
            return SimulatedRequest(create=self._create_volume(body.volume, body.all_hints(), identity, key))
        if isinstance(body, volume_bodies.CreateVolumes):
            return SimulatedRequest(group=self._create_group(body, identity, key))
        simulated = existing_volume_request(body, key.request_id)
        self._visible_volume(volume_of(simulated), identity)
        if simulated.retype is None:
            return simulated
        retype = simulated.retype
        return SimulatedRequest(retype=replace(retype, volume_type=self.type_id(retype.volume_type, identity)))

    def _create_volume(
        self,
        new_volume: volume_bodies.NewVolume,
        hints: fields.Hints,
        identity: RequestContext,
        key: _RequestKey,
        index: int = 0,
    ) -> CreateVolume:
        """Return the request for a volume. ``hints`` are the hints outside of the volume's own object."""
        source = None if not new_volume.source_volid else self._visible_volume(new_volume.source_volid, identity)
        inherited = None if source is None else source.volume_type_id
        # A clone without a size gets that of its source.
        default_size = 0 if source is None else source.size_gb
        if all_hints := {**hints, **new_volume.all_hints()}:
            _check_length(all_hints)
        return CreateVolume(
            request_id=key.request_id,
            volume_id=key.volume_id(index),
            size_gb=int(new_volume.size) if isinstance(new_volume.size, fields.Size) else default_size,
            project_id=identity.project_id or "",
            user_id=identity.user_id or "",
            name=new_volume.name,
            description=new_volume.description,
            volume_type=self.type_for(new_volume.volume_type or inherited, identity),
            availability_zone=new_volume.availability_zone or None,
            metadata=new_volume.metadata or {},
            hints=all_hints,
            source_volume_id=None if source is None else source.id,
            group_id=self._group(new_volume.group_id, identity) if new_volume.group_id else None,
        )

    def _create_group(
        self, sent: volume_bodies.CreateVolumes, identity: RequestContext, key: _RequestKey
    ) -> CreateGroup:
        messages = [
            self._create_volume(new_volume, sent.all_hints(), identity, key, index)
            for index, new_volume in enumerate(sent.volumes)
        ]
        ids = [message.volume_id for message in messages]
        resolved = [resolve_siblings(message, f"volumes[{index}]", ids) for index, message in enumerate(messages)]
        return CreateGroup(request_id=key.request_id, volumes=resolved)

    def _visible_volume(self, volume_id: str, identity: RequestContext) -> volumes.VolumeDetails:
        """Return a volume that the user can see: the source of a clone, or the volume of a simulated request."""
        policy = self._context.policy
        source = self._context.database.read(volumes.get, volume_id, policy.visible_project(identity))
        policy.require(identity, policies.VOLUME_GET, source.project_id)
        return source

    def _group(self, group_id: str, identity: RequestContext) -> str:
        """Return the id of a group for a new volume, if the user can see the group."""
        policy = self._context.policy
        with self._context.database.reading() as session:
            group = groups.get(session, group_id, policy.visible_project(identity)).row
        policy.require(identity, policies.GROUP_GET, group.project_id)
        return group.id

    def type_for(self, requested: str | None, identity: RequestContext) -> str | None:
        """Return the id of the requested type of a new volume, or the name of the default type, None without one.

        The scheduler looks the default type up, with the other types of a batch, whether the user sees it or not.
        """
        return self.type_id(requested, identity) if requested else self._default_type


def _create_body_type(req: Request) -> type[volume_bodies.CreateVolume]:
    """Return the type of the body of ``POST /volumes`` with a single volume, in the microversion of the request."""
    strict = req.at_least(microversions.STRICT_VOLUME)
    return volume_bodies.CreateVolume if strict else volume_bodies.TolerantCreateVolume


def _request_key(
    identity: RequestContext,
    key: str | None,
    sent: volume_bodies.NewVolume | Sequence[volume_bodies.NewVolume],
    hints: fields.Hints,
) -> _RequestKey:
    """Return the key of a request for new volumes; ``key`` is the header ``Idempotency-Key``.

    Its id is a hash of the project and the header. Its fingerprint is one of the volumes, so bodies that mean the same
    in other words have the same fingerprint. ``hints`` are the hints outside of the volumes' own objects.
    """
    if key is None:
        return _RequestKey(identity.request_id or "")
    if not re.fullmatch(IDEMPOTENCY_KEY.pattern, key):
        raise errors.InvalidInput(f"{IDEMPOTENCY_KEY.name} is no text of 1 to {_MAX_KEY_LENGTH} characters of ASCII")
    request_id = f"key-{_digest([identity.project_id, key])}"
    LOG.info("[%s] is known as %s", identity.request_id, request_id)
    if isinstance(sent, volume_bodies.NewVolume):
        return _RequestKey(request_id, _digest(sent.content(hints)))
    return _RequestKey(request_id, _digest([new_volume.content(hints) for new_volume in sent]))


def _digest(value: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=24).hexdigest()


def _check_length(hints: fields.Hints) -> None:
    """Raise InvalidInput if a hint names more volumes than one request may create.

    The scheduler checks each named volume again for every decision, and in a group for each member.
    """
    for hint in _VOLUME_HINTS:
        value = hints.get(hint)
        if isinstance(value, list) and len(value) > volume_bodies.MAX_AT_ONCE:
            raise errors.InvalidInput(
                f"the hint {hint} names {len(value)} volumes: it takes at most {volume_bodies.MAX_AT_ONCE}"
            )


def existing_volume_request(
    body: simulation_bodies.ExtendVolume | simulation_bodies.MigrateVolume | simulation_bodies.RetypeVolume,
    request_id: str,
) -> SimulatedRequest:
    """Return the simulated request for an existing volume."""
    if isinstance(body, simulation_bodies.ExtendVolume):
        extend = body.extend
        size = int(extend.new_size)
        return SimulatedRequest(
            extend=ExtendVolume(request_id=request_id, volume_id=extend.volume_id, new_size_gb=size)
        )
    if isinstance(body, simulation_bodies.MigrateVolume):
        migrate = body.migrate
        return SimulatedRequest(
            migrate=MigrateVolume(request_id=request_id, volume_id=migrate.volume_id, destination=migrate.host)
        )
    retype = body.retype
    policy = MigrationPolicy(retype.migration_policy or MigrationPolicy.NEVER)
    return SimulatedRequest(
        retype=RetypeVolume(
            request_id=request_id, volume_id=retype.volume_id, volume_type=retype.new_type, migration_policy=policy
        )
    )


def volume_of(simulated: SimulatedRequest) -> str:
    """Return the id of the existing volume in a simulated request, empty if there is none."""
    request = simulated.extend or simulated.migrate or simulated.retype
    return "" if request is None else request.volume_id


def resolve_siblings(message: CreateVolume, path: str, ids: Sequence[str]) -> CreateVolume:
    """Return the request with ids in place of indexes in its hints.

    ``ids`` are the ids of all volumes of the group. ``path`` is the position of the volume in the body, for errors.
    """
    hints = dict(message.hints)
    for hint in _VOLUME_HINTS:
        value = hints.pop(hint, None)
        named = [] if value is None else value if isinstance(value, list) else [value]
        volume_ids = [_volume_id(reference, f"{path}: the hint {hint}", ids) for reference in named]
        # A hint for all members of a group has no meaning for a member about itself.
        volume_ids = [volume_id for volume_id in volume_ids if volume_id != message.volume_id]
        if volume_ids:
            hints[hint] = volume_ids
    return replace(message, hints=hints)


def _volume_id(value: object, path: str, ids: Sequence[str]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(ids):
        return ids[value]
    raise errors.InvalidInput(
        f"{path} names {value!r}: expected the id of a volume that is there, or the place of one in this list, "
        f"0 to {len(ids) - 1}"
    )
