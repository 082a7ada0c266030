# SPDX-License-Identifier: Apache-2.0
"""Handling of request batches on the scheduler's side.

The requests of a batch are independent: a malformed or failed request has no effect on the others.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tonnage.capacity import errors
from tonnage.rpc import serialization
from tonnage.rpc.messages import CreateVolume, DeleteVolume, ExtendVolume
from tonnage.rpc.transport import TOPIC_SCHEDULER

BatchedRequest: TypeAlias = CreateVolume | ExtendVolume | DeleteVolume


class BatchedOperation(enum.StrEnum):
    """The fields of :class:`~tonnage.rpc.messages.RequestBatch`, in the order of the answers."""

    CREATES = "creates"
    EXTENDS = "extends"
    DELETES = "deletes"


_TYPES: dict[BatchedOperation, type[BatchedRequest]] = {
    BatchedOperation.CREATES: CreateVolume,
    BatchedOperation.EXTENDS: ExtendVolume,
    BatchedOperation.DELETES: DeleteVolume,
}


def serve(
    message: Any,
    handle: Callable[[list[BatchedRequest]], Sequence[object]],
    check: Callable[[BatchedRequest], None] = lambda request: None,
) -> list[dict[str, Any]]:
    """Return the answers to a message, first to all creates, then to the extends, then to the deletes.

    ``handle`` receives the well-formed requests and returns for each, in the same order, a result or an exception as a
    value. ``check`` may raise :class:`~tonnage.capacity.errors.InvalidInput` for an invalid request. Raises the same
    for a message that has no lists of requests.
    """
    decoded: list[BatchedRequest | errors.InvalidInput] = []
    for operation in BatchedOperation:
        requests = message.get(operation, []) if isinstance(message, dict) else None
        if not isinstance(requests, list):
            raise errors.InvalidInput(f"malformed RequestBatch: {operation} is no list")
        for data in requests:
            try:
                request: BatchedRequest = serialization.unpack(data, _TYPES[operation])
                check(request)
                decoded.append(request)
            except errors.InvalidInput as error:
                decoded.append(error)
    handled = iter(handle([request for request in decoded if not isinstance(request, errors.InvalidInput)]))
    results = (request if isinstance(request, errors.InvalidInput) else next(handled) for request in decoded)
    return [
        serialization.bad(result, "request_batch", TOPIC_SCHEDULER)
        if isinstance(result, Exception)
        else serialization.good(result)
        for result in results
    ]
