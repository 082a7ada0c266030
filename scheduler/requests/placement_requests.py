# SPDX-License-Identifier: Apache-2.0
"""The requests of a batch, and the keys by which a request that is delivered again is recognized."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tonnage.capacity.request import Locality
from tonnage.ledger.claims import request_keys
from tonnage.ledger.claims.request_keys import Key
from tonnage.ledger.models import claim_verbs
from tonnage.rpc import serialization
from tonnage.rpc.messages import (
    Answer,
    CreateGroup,
    CreateVolume,
    ExtendVolume,
    GroupAnswer,
    KeyedRequest,
    MigrateVolume,
    RetypeVolume,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVolume(CreateVolume):
    """A request for a new volume on the host of an instance, with that host.

    Nova takes a while to answer, so it is asked before by a preparation of the extension ``compute``.
    """

    locality: Locality


@dataclass(frozen=True, slots=True)
class Retry:
    """A volume whose last pool could not make it and that needs another. ``locality`` is as in :class:`LocalVolume`."""

    volume_id: str
    locality: Locality | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A volume that leaves its pool: by a request, or because its new type requires it (``volume_type``).

    The answer to a move that is not ``keyed`` is not kept, as no request for it is delivered again. With
    ``keeps_affinity`` the hints about other volumes and about an instance hold as they did when it was made.
    """

    message: MigrateVolume
    volume_type: str | None = None
    keyed: bool = True
    keeps_affinity: bool = False

    @classmethod
    def for_type(cls, message: RetypeVolume) -> "Move":
        """Return the move of a retype. Only the answer to the retype is kept."""
        move = MigrateVolume(request_id=message.request_id, volume_id=message.volume_id)
        return cls(move, message.volume_type, keyed=False)


#: A request for one volume that needs a pool, or more room in its own.
Single: TypeAlias = CreateVolume | ExtendVolume | Retry | Move

Work: TypeAlias = Single | RetypeVolume | CreateGroup


def by_volume(work: Sequence[Work]) -> list[Single]:
    """Return the requests volume by volume: the members of groups, and retypes as the moves that they may become."""
    flat: list[Single] = []
    for item in work:
        if isinstance(item, CreateGroup):
            flat += item.volumes
        elif isinstance(item, RetypeVolume):
            flat.append(Move.for_type(item))
        else:
            flat.append(item)
    return flat


def key_of(item: Work) -> Key:
    """Return the key of a request, without an answer. Its request id is empty if no answer is kept.

    The volume is the one in the request; for a group, its first volume.
    """
    if isinstance(item, CreateGroup):
        return Key(item.request_id, item.volumes[0].volume_id if item.volumes else "", request_keys.GROUP)
    if isinstance(item, Move):
        return Key(item.message.request_id if item.keyed else "", item.message.volume_id, claim_verbs.MIGRATE)
    if isinstance(item, RetypeVolume):
        return Key(item.request_id, item.volume_id, request_keys.RETYPE)
    if isinstance(item, Retry):
        return Key("", item.volume_id, claim_verbs.CREATE)
    return Key(
        item.request_id, item.volume_id, claim_verbs.EXTEND if isinstance(item, ExtendVolume) else claim_verbs.CREATE
    )


def is_drain(item: Work) -> bool:
    """Return whether it moves a volume because its backend is draining. Nobody waits for an answer."""
    return isinstance(item, Move) and not item.keyed


def keys_of(work: Sequence[Work]) -> dict[str, datetime.datetime | None]:
    """Map the ids of the requests whose answers are kept to the times at which they were asked for."""
    messages = (item.message if isinstance(item, Move) and item.keyed else item for item in work)
    return {
        request.request_id: request.asked_at
        for request in messages
        if isinstance(request, KeyedRequest) and request.request_id
    }


def kept_answer(item: Work, stored_key: Key) -> Answer | GroupAnswer:
    """Return the answer that a request was given earlier.

    Raises :class:`~tonnage.capacity.errors.KeyReused` if the id was used for another request, and the stored error if
    the request was refused.
    """
    key = key_of(item)
    stored_key.require(key.volume_id, key.verb)
    if isinstance(item, CreateGroup):
        return serialization.unpack(stored_key.answer, GroupAnswer)
    return serialization.unpack(stored_key.answer, Answer)
