# SPDX-License-Identifier: Apache-2.0
"""Requests that travel together: the message ``orders`` and its answers, on both sides.

Each request is for itself: one that is malformed or fails has no effect on the others.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tonnage.capacity import errors
from tonnage.rpc import envelope, serialization
from tonnage.rpc.messages import CreateVolume, DeleteVolume, ExtendVolume
from tonnage.rpc.transport import TOPIC_SCHEDULER

Order: TypeAlias = CreateVolume | ExtendVolume | DeleteVolume


class Kind(enum.StrEnum):
    """The fields of :class:`~tonnage.rpc.messages.Orders`, in the order of the answers."""

    CREATES = "creates"
    EXTENDS = "extends"
    DELETES = "deletes"


_TYPES: dict[Kind, type[Order]] = {
    Kind.CREATES: CreateVolume,
    Kind.EXTENDS: ExtendVolume,
    Kind.DELETES: DeleteVolume,
}


def pack(requests: Sequence[tuple[Kind, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the message with these requests, which are builtins already."""
    message: dict[str, list[dict[str, Any]]] = {kind: [] for kind in Kind}
    for kind, request in requests:
        message[kind].append(request)
    return message


def unpack(kinds: Sequence[Kind], answered: Any) -> list[Any]:
    """Return the answers in the order in which the requests were packed.

    Raises :class:`~tonnage.capacity.errors.Unavailable` if it is not one for each.
    """
    if not isinstance(answered, list) or len(answered) != len(kinds):
        raise errors.Unavailable(f"the scheduler's answer to {len(kinds)} requests is garbled")
    places = sorted(range(len(kinds)), key=lambda place: list(Kind).index(kinds[place]))
    found: list[Any] = [None] * len(kinds)
    for place, answer in zip(places, answered, strict=True):
        found[place] = answer
    return found


def serve(
    message: Any,
    handle: Callable[[list[Order]], Sequence[object]],
    check: Callable[[Order], None] = lambda request: None,
) -> list[dict[str, Any]]:
    """Return the answers to a message.

    ``handle`` is given the well-formed requests and returns for each, in the same order, what it is answered: a result,
    or an error as a value. ``check`` may raise :class:`~tonnage.capacity.errors.InvalidInput` for what is not.
    """
    decoded = [_decoded(request, kind, check) for kind in Kind for request in _listed(message, kind)]
    handled = iter(handle([order for order in decoded if not isinstance(order, errors.InvalidInput)]))
    return [_answer(order if isinstance(order, errors.InvalidInput) else next(handled)) for order in decoded]


def _listed(message: Any, kind: Kind) -> list[Any]:
    requests = message.get(kind, []) if isinstance(message, dict) else None
    if not isinstance(requests, list):
        raise errors.InvalidInput(f"malformed Orders: {kind} is no list")
    return requests


def _decoded(request: Any, kind: Kind, check: Callable[[Order], None]) -> Order | errors.InvalidInput:
    try:
        order = serialization.unpack(request, _TYPES[kind])
        check(order)
    except errors.InvalidInput as error:
        return error
    return order


def _answer(value: object) -> dict[str, Any]:
    return envelope.bad(value, "orders", TOPIC_SCHEDULER) if isinstance(value, Exception) else envelope.good(value)
