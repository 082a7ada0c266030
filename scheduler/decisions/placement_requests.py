# SPDX-License-Identifier: Apache-2.0
"""What is to be placed, and by which key it is known when it is delivered again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tonnage.capacity.request import Locality
from tonnage.ledger.claims import bookings, request_keys
from tonnage.ledger.claims.request_keys import Key
from tonnage.rpc import serialization
from tonnage.rpc.messages import (
    Answer,
    CreateGroup,
    CreateVolume,
    ExtendVolume,
    GroupAnswer,
    MigrateVolume,
    RetypeVolume,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVolume(CreateVolume):
    """A request for a new volume that shall be where an instance runs, and where that is.

    Who knows that takes a while to answer, so it is found out before (:mod:`tonnage.scheduler.compute.instance_hosts`).
    """

    locality: Locality


@dataclass(frozen=True, slots=True)
class Retry:
    """A volume whose last pool could not make it and that needs another. ``locality`` is as in :class:`LocalVolume`."""

    volume_id: str
    locality: Locality | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A volume that shall leave its pool: asked for, or because its type wants it elsewhere (``volume_type``).

    Nobody asks again for the answer of one that is not ``keyed``, so it is not kept.
    """

    message: MigrateVolume
    volume_type: str | None = None
    keyed: bool = True

    @classmethod
    def for_type(cls, message: RetypeVolume) -> "Move":
        """Return the move that gives a volume another type; the answer that is kept is that of the retype."""
        move = MigrateVolume(request_id=message.request_id, volume_id=message.volume_id)
        return cls(move, message.volume_type, keyed=False)


#: One volume that needs a place, or more room in its own.
Single: TypeAlias = CreateVolume | ExtendVolume | Retry | Move

Work: TypeAlias = Single | RetypeVolume | CreateGroup


def taken_apart(work: Sequence[Work]) -> list[Single]:
    """Return what has to be looked up for these: groups taken apart, retypes as the moves that they may become."""
    flat: list[Single] = []
    for item in work:
        if isinstance(item, CreateGroup):
            flat += item.volumes
        elif isinstance(item, RetypeVolume):
            flat.append(Move.for_type(item))
        else:
            flat.append(item)
    return flat


def key_of(item: Work) -> str:
    """Return the idempotency key of an item, empty if it has none."""
    if isinstance(item, Retry) or (isinstance(item, Move) and not item.keyed):
        return ""
    return item.message.request_id if isinstance(item, Move) else item.request_id


def purpose(item: Work) -> tuple[str, str]:
    """Return what a request is for: the volume, of a group the first one, and the verb."""
    if isinstance(item, CreateGroup):
        return (item.volumes[0].volume_id if item.volumes else ""), request_keys.GROUP
    if isinstance(item, Move):
        return item.message.volume_id, bookings.MIGRATE
    if isinstance(item, RetypeVolume):
        return item.volume_id, request_keys.RETYPE
    return item.volume_id, bookings.EXTEND if isinstance(item, ExtendVolume) else bookings.CREATE


def answered(item: Work, answer: Answer | GroupAnswer) -> Key:
    """Return the key that is kept with the answer to an item."""
    return Key(key_of(item), *purpose(item), serialization.pack(answer))


def answer_before(item: Work, known: Key) -> Answer | GroupAnswer:
    """Return the answer that a request was given before.

    Raises :class:`~tonnage.capacity.errors.Conflict` if its id was used for another one, and the error that it was
    refused with then, if it was.
    """
    known.require(*purpose(item))
    if isinstance(item, CreateGroup):
        return serialization.unpack(known.answer, GroupAnswer)
    return serialization.unpack(known.answer, Answer)
