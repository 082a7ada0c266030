# SPDX-License-Identifier: Apache-2.0
"""The common part of the RPC clients."""

from typing import Any

import oslo_messaging

from tonnage.capacity import errors
from tonnage.rpc import envelope, serialization
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.transport import Transport

#: Number of attempts to restore a lost connection to the bus before the sender gets an error, which takes some seconds
#: with the pauses of oslo.messaging. Its own default is to try forever.
CONNECTION_RETRIES = 2


class Peer:
    """Sends messages to the servers of one topic."""

    def __init__(self, transport: Transport, topic: str, name: str) -> None:
        """``name`` is the name of the server in errors."""
        self._name = name
        self._conf = transport.conf
        self._client = oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(topic=topic, version=rpc_transport.VERSION), retry=CONNECTION_RETRIES
        )

    def call(self, method: str, message: object, timeout: float | None = None) -> Any:
        """Send a message to any server and return its answer as builtins.

        Raises what the server raised, or :class:`~tonnage.capacity.errors.Unavailable` if no server answers within
        ``timeout`` seconds (unless given, ``rpc_response_timeout``), the bus cannot be reached, or the server
        failed or speaks another version.
        """
        client = self._client.prepare(timeout=timeout)
        try:
            answer = client.call({}, method, message=serialization.pack(message))
        except oslo_messaging.MessagingTimeout:
            raise errors.Unavailable(
                f"no {self._name} answered {method} within "
                + (f"{timeout:g} s" if timeout else f"rpc_response_timeout = {self._conf.rpc_response_timeout} s")
            ) from None
        except oslo_messaging.RemoteError as error:
            raise errors.Unavailable(f"the {self._name} could not take {method}: {error.exc_type}") from None
        except rpc_transport.FAILURES as error:
            raise self._unreachable(method, error) from None
        return envelope.result(answer)

    def cast(self, method: str, message: object | None = None, **target: Any) -> None:
        """Send a message without waiting; ``target`` is ``server=name`` or ``fanout=True``.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the bus cannot be reached.
        """
        arguments = {} if message is None else {"message": serialization.pack(message)}
        try:
            self._client.prepare(**target).cast({}, method, **arguments)
        except rpc_transport.FAILURES as error:
            raise self._unreachable(method, error) from None

    def _unreachable(self, method: str, error: Exception) -> errors.Unavailable:
        return errors.Unavailable(
            f"the message bus did not take {method} for the {self._name}: {rpc_transport.describe_failure(error)}"
        )
