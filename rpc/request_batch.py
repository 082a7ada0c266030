# SPDX-License-Identifier: Apache-2.0
"""Handling of request batches on the scheduler's side.

The requests of a batch are independent: a malformed or failed request has no effect on the others.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tonnage.capacity import errors
from tonnage.rpc import contract, handlers, serialization
from tonnage.rpc.messages import CreateVolume, DeleteVolume, ExtendVolume, RequestBatch
from tonnage.rpc.transport import TOPIC_SCHEDULER

BatchedRequest: TypeAlias = CreateVolume | ExtendVolume | DeleteVolume


def serve(batch: RequestBatch, handle: Callable[[list[BatchedRequest]], Sequence[object]]) -> list[dict[str, Any]]:
    """Return the answers to a batch, in the order of :data:`~tonnage.rpc.contract.BATCHED_METHODS`.

    ``handle`` receives the well-formed requests and returns for each, in the same order, a result or an exception as a
    value.
    """
    decoded: list[BatchedRequest | errors.InvalidInput] = []
    for method in contract.BATCHED_METHODS:
        for packed in getattr(batch, method.name):
            try:
                request: BatchedRequest = serialization.unpack(packed, method.message)
                handlers.check_request_id(request)
                decoded.append(request)
            except errors.InvalidInput as error:
                decoded.append(error)
    handled = iter(handle([request for request in decoded if not isinstance(request, errors.InvalidInput)]))
    results = (request if isinstance(request, errors.InvalidInput) else next(handled) for request in decoded)
    return [
        serialization.bad(result, contract.REQUEST_BATCH.name, TOPIC_SCHEDULER)
        if isinstance(result, Exception)
        else serialization.good(result)
        for result in results
    ]
