# SPDX-License-Identifier: Apache-2.0
"""The server side of the contract: a handler for each method."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic

from tonnage.capacity import errors
from tonnage.rpc import serialization
from tonnage.rpc.contract import Answer, Delivery, Message, Method
from tonnage.rpc.messages import KeyedRequest

LOG = logging.getLogger(__name__)

#: Most characters of the id of a request.
LONGEST_REQUEST_ID = 64


@dataclass(frozen=True, slots=True)
class RpcHandler(Generic[Message, Answer]):
    """A method of the contract, and the function that handles its messages."""

    method: Method[Message, Answer]
    handle: Callable[[Message], Answer]


class Endpoint:
    """The methods of a server, as attributes that oslo.messaging finds by the names in the contract.

    A method takes the context and ``message`` as builtins; :mod:`tonnage.rpc.serialization` encodes its result. A
    malformed message of a cast is ignored with a warning.
    """

    def __init__(
        self, name: str, methods: Iterable[Method[Any, Any]], handlers: Iterable[RpcHandler[Any, Any]]
    ) -> None:
        """Serve ``methods``, and further ones that have handlers. ``name`` is the name of the server in logs.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` unless each method has exactly one handler.
        """
        handlers = list(handlers)
        numbers = Counter(handler.method.name for handler in handlers)
        missing = sorted({method.name for method in methods} - numbers.keys())
        repeated = sorted(method for method, number in numbers.items() if number > 1)
        if missing or repeated:
            raise errors.ConfigurationError(
                f"the RPC methods of {name} need one handler each; without one: {', '.join(missing) or 'none'}; with "
                f"several, of Tonnage or of enabled extensions: {', '.join(repeated) or 'none'}"
            )
        self._name = name
        for handler in handlers:
            setattr(self, handler.method.name, self._served(handler))

    def _served(self, handler: RpcHandler[Message, Answer]) -> Callable[..., Answer | None]:
        method = handler.method

        def serve(context: object, message: object = None) -> Answer | None:
            try:
                decoded = serialization.unpack(message, method.message)
            except errors.InvalidInput as error:
                if method.delivery not in (Delivery.CAST, Delivery.FANOUT):
                    raise
                LOG.warning("%s ignores %s: %s", self._name, method.name, error.message)
                return None
            if method.keyed and isinstance(decoded, KeyedRequest):
                check_request_id(decoded)
            return handler.handle(decoded)

        return serve


def check_request_id(request: KeyedRequest) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` for an unusable request id."""
    request_id = request.request_id
    if not request_id or len(request_id) > LONGEST_REQUEST_ID or "\0" in request_id:
        raise errors.InvalidInput(
            f"request_id is {request_id[:40]!r}: it takes 1 to {LONGEST_REQUEST_ID} characters, none of them NUL, and "
            "each request has one of its own"
        )
