# SPDX-License-Identifier: Apache-2.0
"""Encoding and handling of request batches and their answers.

The requests of a batch are independent: a malformed or failed request has no effect on the others.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tonnage.capacity import errors
from tonnage.rpc import envelope, serialization
from tonnage.rpc.messages import CreateVolume, DeleteVolume, ExtendVolume
from tonnage.rpc.transport import TOPIC_SCHEDULER

BatchedRequest: TypeAlias = CreateVolume | ExtendVolume | DeleteVolume


class RequestKind(enum.StrEnum):
    """The fields of :class:`~tonnage.rpc.messages.RequestBatch`, in the order of the answers."""

    CREATES = "creates"
    EXTENDS = "extends"
    DELETES = "deletes"


_TYPES: dict[RequestKind, type[BatchedRequest]] = {
    RequestKind.CREATES: CreateVolume,
    RequestKind.EXTENDS: ExtendVolume,
    RequestKind.DELETES: DeleteVolume,
}


def pack(requests: Sequence[tuple[RequestKind, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the message with these requests, which are plain builtins."""
    message: dict[str, list[dict[str, Any]]] = {kind: [] for kind in RequestKind}
    for kind, request in requests:
        message[kind].append(request)
    return message


def unpack(kinds: Sequence[RequestKind], answered: Any) -> list[Any]:
    """Return the answers in the order in which the requests were packed.

    Raises :class:`~tonnage.capacity.errors.Unavailable` unless there is one for each.
    """
    if not isinstance(answered, list) or len(answered) != len(kinds):
        raise errors.Unavailable(f"the scheduler's answer to {len(kinds)} requests is garbled")
    places = sorted(range(len(kinds)), key=lambda place: list(RequestKind).index(kinds[place]))
    found: list[Any] = [None] * len(kinds)
    for place, answer in zip(places, answered, strict=True):
        found[place] = answer
    return found


def serve(
    message: Any,
    handle: Callable[[list[BatchedRequest]], Sequence[object]],
    check: Callable[[BatchedRequest], None] = lambda request: None,
) -> list[dict[str, Any]]:
    """Return the answers to a message.

    ``handle`` receives the well-formed requests and returns for each, in the same order, a result or an exception as a
    value. ``check`` may raise :class:`~tonnage.capacity.errors.InvalidInput` for an invalid request.
    """
    decoded = [_decoded(data, kind, check) for kind in RequestKind for data in _listed(message, kind)]
    handled = iter(handle([request for request in decoded if not isinstance(request, errors.InvalidInput)]))
    return [_answer(request if isinstance(request, errors.InvalidInput) else next(handled)) for request in decoded]


def _listed(message: Any, kind: RequestKind) -> list[Any]:
    requests = message.get(kind, []) if isinstance(message, dict) else None
    if not isinstance(requests, list):
        raise errors.InvalidInput(f"malformed RequestBatch: {kind} is no list")
    return requests


def _decoded(
    data: Any, kind: RequestKind, check: Callable[[BatchedRequest], None]
) -> BatchedRequest | errors.InvalidInput:
    try:
        request: BatchedRequest = serialization.unpack(data, _TYPES[kind])
        check(request)
    except errors.InvalidInput as error:
        return error
    return request


def _answer(value: object) -> dict[str, Any]:
    return (
        envelope.bad(value, "request_batch", TOPIC_SCHEDULER) if isinstance(value, Exception) else envelope.good(value)
    )
