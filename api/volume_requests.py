# SPDX-License-Identifier: Apache-2.0
"""From bodies to requests for new volumes: one, or several at once, with what they name looked up."""

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
from tonnage.api.http import fields
from tonnage.api.http.body import convert
from tonnage.api.http.http_request import Request
from tonnage.api.openapi.annotations import Header
from tonnage.api.resource_context import Tools
from tonnage.api.schemas import simulation_bodies, volume_bodies
from tonnage.capacity import errors, type_conversion
from tonnage.capacity.pools.hypothetical_pools import Changes
from tonnage.ledger import models
from tonnage.ledger.catalog import groups, volume_types, volumes
from tonnage.rpc.messages import (
    Asked,
    CreateGroup,
    CreateVolume,
    ExtendVolume,
    MigrateVolume,
    MigrationPolicy,
    RetypeVolume,
    WhatIf,
)

LOG = logging.getLogger(__name__)

_LONGEST_KEY = 255

#: The header by which a sender says that two requests are one.
IDEMPOTENCY_KEY = Header(
    name="Idempotency-Key",
    description="Requests of one project with the same key and the same body are one request.",
    pattern=rf"^[!-~]([ -~]{{0,{_LONGEST_KEY - 2}}}[!-~])?$",
)

#: Whatever is hashed with this is no id of anything else.
_NAMESPACE = uuid.UUID("6f0b8c1e-3d52-4a97-9c84-51e7d2a0b36f")

#: Hints that name volumes; among several new ones also by their places in the list.
_NAMING_HINTS = ("same_host", "different_host")


@dataclass(frozen=True, slots=True)
class _Known:
    """What a request is known by if it comes again, and its volumes with it."""

    request_id: str
    chosen_by_sender: bool = False

    def volume_id(self, number: int) -> str:
        """Return the id of one of its volumes: the same if the request comes again, else one of its own."""
        return str(uuid.uuid5(_NAMESPACE, f"{self.request_id}/{number}") if self.chosen_by_sender else uuid.uuid4())


class Requests:
    """Turns bodies into requests. ``default_type`` is the option ``default_volume_type``.

    Its methods raise :class:`~tonnage.capacity.errors.InvalidInput` and, for a type or a volume that the asker cannot
    see, :class:`~tonnage.capacity.errors.NotFound`.
    """

    def __init__(self, tools: Tools, default_type: str | None) -> None:
        self._tools, self._default_type = tools, default_type

    def read(self, req: Request) -> CreateVolume:
        """Return the one volume that the request asks for."""
        sent = self._tools.bodies.read(req, volume_bodies.CreateVolume)
        identity = req.context.identity
        return self._one(sent.volume, sent.all_hints(), identity, _Known(identity.request_id or ""))

    def read_any(self, req: Request) -> CreateVolume | CreateGroup:
        """Return what the request asks for: ``volume`` is one, ``volumes`` are several, all of them or none."""
        sent, identity = self._tools.bodies.decode(req), req.context.identity
        known = _known_by(req, sent)
        if "volumes" not in sent:
            asked = convert(sent, volume_bodies.CreateVolume)
            return self._one(asked.volume, asked.all_hints(), identity, known)
        if "volume" in sent:
            raise errors.InvalidInput("the body has both volume and volumes: send one of them")
        return self._several(convert(sent, volume_bodies.CreateVolumes), identity, known)

    def read_asked(self, req: Request) -> Asked:
        """Return the request that a question is about, one of :data:`tonnage.api.schemas.simulation_bodies.ASKED`."""
        identity = req.context.identity
        return self._asked(self._tools.bodies.decode(req), identity, _Known(identity.request_id or ""))

    def read_what_if(self, req: Request) -> WhatIf:
        """Return a question about several requests, and what would be different."""
        sent = self._tools.bodies.read(req, simulation_bodies.WhatIf)
        identity = req.context.identity
        asked = []
        for number, item in enumerate(sent.requests):
            try:
                # Each has an id of its own, as chance goes by it.
                asked.append(self._asked(item, identity, _Known(f"{identity.request_id}.{number}")))
            except errors.InvalidInput as error:
                raise errors.InvalidInput(f"requests[{number}]: {error.message}") from None
        changes = type_conversion.convert(sent.changes, Changes, from_attributes=True)
        return WhatIf(requests=asked, changes=changes, detail=sent.detail, apart=sent.apart)

    def type_id(self, name: str, identity: RequestContext) -> str:
        """Return the id of a volume type that the asker names by id or name."""
        with self._tools.database.reading() as session:
            return volume_types.find(session, name, self._tools.policy.reach(identity)).id

    def _asked(self, sent: dict[str, Any], identity: RequestContext, known: _Known) -> Asked:
        given = sorted(simulation_bodies.ASKED.keys() & sent.keys())
        if len(given) > 1:
            raise errors.InvalidInput(f"the body has {' and '.join(given)}: send one of them")
        wanted: simulation_bodies.Question = convert(
            sent, simulation_bodies.ASKED[given[0]] if given else volume_bodies.CreateVolume
        )
        if isinstance(wanted, volume_bodies.CreateVolume):
            return Asked(create=self._one(wanted.volume, wanted.all_hints(), identity, known))
        if isinstance(wanted, volume_bodies.CreateVolumes):
            return Asked(group=self._several(wanted, identity, known))
        asked = of_volume_there(wanted, known.request_id)
        self._source(volume_of(asked), identity)
        if asked.retype is None:
            return asked
        return Asked(retype=replace(asked.retype, volume_type=self.type_id(asked.retype.volume_type, identity)))

    def _one(
        self,
        wanted: volume_bodies.NewVolume,
        beside: fields.Hints,
        identity: RequestContext,
        known: _Known,
        number: int = 0,
    ) -> CreateVolume:
        source = None if not wanted.source_volid else self._source(wanted.source_volid, identity)
        inherited = None if source is None else source.volume_type_id
        return CreateVolume(
            request_id=known.request_id,
            volume_id=known.volume_id(number),
            size_gb=_size(wanted, source),
            project_id=identity.project_id or "",
            user_id=identity.user_id or "",
            name=wanted.name,
            description=wanted.description,
            volume_type=self.type_for(wanted.volume_type or inherited, identity),
            availability_zone=wanted.availability_zone or None,
            metadata=wanted.metadata or {},
            hints=_bounded({**beside, **wanted.all_hints()}),
            source_volume_id=None if source is None else source.id,
            group_id=self._group(wanted.group_id, identity) if wanted.group_id else None,
        )

    def _several(self, sent: volume_bodies.CreateVolumes, identity: RequestContext, known: _Known) -> CreateGroup:
        messages = [
            self._one(wanted, sent.all_hints(), identity, known, number) for number, wanted in enumerate(sent.volumes)
        ]
        ids = [message.volume_id for message in messages]
        resolved = [siblings_by_id(message, f"volumes[{number}]", ids) for number, message in enumerate(messages)]
        return CreateGroup(request_id=known.request_id, volumes=resolved)

    def _source(self, volume_id: str, identity: RequestContext) -> models.Volume:
        """Return a volume that is to be cloned or grown, and that the asker can see."""
        policy = self._tools.policy
        with self._tools.database.reading() as session:
            source = volumes.get(session, volume_id, policy.reach(identity))
        policy.require(identity, policies.VOLUME_GET, source.project_id)
        return source

    def _group(self, group_id: str, identity: RequestContext) -> str:
        """Return the id of a group that a volume is to be in, and that the asker can see."""
        policy = self._tools.policy
        with self._tools.database.reading() as session:
            group = groups.get(session, group_id, policy.reach(identity)).row
        policy.require(identity, policies.GROUP_GET, group.project_id)
        return group.id

    def type_for(self, asked: str | None, identity: RequestContext) -> str | None:
        """Return the id of the type that a volume gets: the one asked for, else the default one, if there is any."""
        if asked:
            return self.type_id(asked, identity)
        if self._default_type is None:
            return None
        try:
            return self.type_id(self._default_type, identity)
        except errors.NotFound:
            LOG.error("option default_volume_type names %r, and there is no such volume type", self._default_type)
            raise errors.InvalidInput(
                f"The default volume type {self._default_type!r} does not exist: name a volume_type, or have the "
                "operator create it or change the option default_volume_type."
            ) from None


def _known_by(req: Request, body: object) -> _Known:
    """Return what the same request is known by if it comes again.

    That is the id that it was given on arrival, or what the sender made of it: the same key with the same body in the
    same project is the same request.
    """
    identity = req.context.identity
    key = req.get_header(IDEMPOTENCY_KEY.name)
    if key is None:
        return _Known(identity.request_id or "")
    if not re.fullmatch(IDEMPOTENCY_KEY.pattern, key):
        raise errors.InvalidInput(f"{IDEMPOTENCY_KEY.name} is no text of 1 to {_LONGEST_KEY} characters of ASCII")
    said = msgspec.json.encode([identity.project_id, key, body], order="sorted")
    found = f"key-{hashlib.blake2b(said, digest_size=24).hexdigest()}"
    LOG.info("[%s] is known as %s", identity.request_id, found)
    return _Known(found, chosen_by_sender=True)


def _bounded(hints: fields.Hints) -> fields.Hints:
    """Return hints that name no more volumes than can be asked for at once.

    Each is looked at again and again while others wait for their decision, and in a group with each of its volumes.
    """
    for hint in _NAMING_HINTS:
        value = hints.get(hint)
        if isinstance(value, list) and len(value) > volume_bodies.MAX_AT_ONCE:
            raise errors.InvalidInput(
                f"the hint {hint} names {len(value)} volumes: it takes at most {volume_bodies.MAX_AT_ONCE}"
            )
    return hints


def _size(wanted: volume_bodies.NewVolume, source: models.Volume | None) -> int:
    """Return the size that is asked for; a clone is as large as its source unless more is asked for."""
    if isinstance(wanted.size, fields.Size):
        return int(wanted.size)
    return 0 if source is None else source.size_gb


def of_volume_there(
    wanted: simulation_bodies.ExtendVolume | simulation_bodies.MigrateVolume | simulation_bodies.RetypeVolume,
    request_id: str,
) -> Asked:
    """Return what is asked about a volume that is there."""
    if isinstance(wanted, simulation_bodies.ExtendVolume):
        growth = wanted.extend
        size = int(growth.new_size)
        return Asked(extend=ExtendVolume(request_id=request_id, volume_id=growth.volume_id, new_size_gb=size))
    if isinstance(wanted, simulation_bodies.MigrateVolume):
        moving = wanted.migrate
        return Asked(migrate=MigrateVolume(request_id=request_id, volume_id=moving.volume_id, destination=moving.host))
    kind = wanted.retype
    policy = MigrationPolicy(kind.migration_policy or MigrationPolicy.NEVER)
    return Asked(
        retype=RetypeVolume(
            request_id=request_id, volume_id=kind.volume_id, volume_type=kind.new_type, migration_policy=policy
        )
    )


def volume_of(asked: Asked) -> str:
    """Return the volume that is there and asked about."""
    one = asked.extend or asked.migrate or asked.retype
    return "" if one is None else one.volume_id


def siblings_by_id(message: CreateVolume, where: str, ids: Sequence[str]) -> CreateVolume:
    """Return the request with the ids of others of its group where its hints name their places in the list."""
    hints = dict(message.hints)
    for hint in _NAMING_HINTS:
        value = hints.pop(hint, None)
        named = [] if value is None else value if isinstance(value, list) else [value]
        others = [_volume_id(each, f"{where}: the hint {hint}", ids) for each in named]
        # What is said to all of a group says nothing to each about itself.
        others = [each for each in others if each != message.volume_id]
        if others:
            hints[hint] = others
    return replace(message, hints=hints)


def _volume_id(value: object, where: str, ids: Sequence[str]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(ids):
        return ids[value]
    raise errors.InvalidInput(
        f"{where} names {value!r}: expected the id of a volume that is there, or the place of one in this list, "
        f"0 to {len(ids) - 1}"
    )
