# SPDX-License-Identifier: Apache-2.0
"""Calls to a plugin of the Container Storage Interface, over its Unix socket.

A call that finds the plugin away (UNAVAILABLE) or busy with the same volume (ABORTED) is made again, with growing
pauses, until its time is over. All calls of the standard are idempotent.
"""

import threading
import time
from collections.abc import Collection
from typing import TypeVar

import grpc
import tenacity
from google.protobuf.message import Message

ResponseT = TypeVar("ResponseT", bound=Message)

#: What becomes another answer by asking again.
PASSING = frozenset({grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE})

#: Codes by which a plugin refuses a call before it has done anything.
_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)

#: Those by which it says that the volume is not there, and cannot be.
_ABSENT = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)

_CHANNEL_OPTIONS = [
    # By default it is the path, escaped, which servers written in Go refuse.
    ("grpc.default_authority", "localhost"),
    # Lists of many volumes; a plugin on this machine is trusted with that.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # By default a plugin that comes back after a while is not noticed for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class CallFailed(Exception):
    """A call came to nothing; the text names endpoint, call and code. ``again`` if the same was asked for before."""

    def __init__(self, endpoint: str, call: str, code: grpc.StatusCode, details: str, again: bool) -> None:
        super().__init__(f"{endpoint} answers {call} with {code.name}: {details or 'it does not say why'}")
        self.code = code
        self._again = again

    @property
    def refused(self) -> bool:
        """Whether the plugin says that it has done nothing, and will not.

        It says nothing of an earlier attempt whose answer was lost, or that was under way: that may have done it.
        """
        return self.absent if self._again else self.code in _REFUSALS

    @property
    def absent(self) -> bool:
        """Whether the plugin says, of a volume to be made, that there is none: if there were, it would say so."""
        return self.code in _ABSENT

    @property
    def no_room(self) -> bool:
        """Whether what is missing is room."""
        return self.code is grpc.StatusCode.RESOURCE_EXHAUSTED


class Deadline:
    """A moment that several calls have to end by."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return how many seconds are left, at least a few milliseconds."""
        return max(self._end - time.monotonic(), 0.005)

    def over(self, attempts: tenacity.RetryCallState) -> bool:
        """Tell whether there is no time for the next attempt."""
        return time.monotonic() + attempts.upcoming_sleep >= self._end


class Connection:
    """Makes calls to the plugin behind ``endpoint``, which is ``unix:///path``. Thread-safe.

    Nothing is opened before the first call, and a process that forks must not have made one.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._channel: grpc.Channel | None = None
        self._opening = threading.Lock()

    def call(
        self,
        name: str,
        request: Message,
        answer: type[ResponseT],
        deadline: Deadline,
        passing: Collection[grpc.StatusCode] = PASSING,
    ) -> ResponseT:
        """Call ``Service/Method`` of ``csi.v1``, again after failures that are ``passing``.

        Raises :class:`CallFailed`.
        """
        with self._opening:
            if self._channel is None:
                self._channel = grpc.insecure_channel(self.endpoint, _CHANNEL_OPTIONS)
        method = self._channel.unary_unary(
            f"/csi.v1.{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, CallFailed) and error.code in passing),
            wait=tenacity.wait_random_exponential(multiplier=0.05, max=2.0),
            stop=deadline.over,
            reraise=True,
        )

        def attempt() -> ResponseT:
            again = attempts.statistics["attempt_number"] > 1
            try:
                response: ResponseT = method(request, timeout=deadline.left())
            except grpc.RpcError as error:
                raise CallFailed(self.endpoint, name, error.code(), error.details(), again) from error
            return response

        return attempts(attempt)
