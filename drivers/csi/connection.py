# SPDX-License-Identifier: Apache-2.0
"""Calls to a plugin of the Container Storage Interface, over its Unix socket.

A call that fails because the plugin is away (UNAVAILABLE) or busy with the same volume (ABORTED) is retried, with
growing back-off, until its deadline. All calls of the standard are idempotent.
"""

import threading
import time
from collections.abc import Collection
from typing import TypeVar

import grpc
import tenacity
from google.protobuf.message import Message

ResponseT = TypeVar("ResponseT", bound=Message)

#: Codes of failures that a retry may overcome.
TRANSIENT_CODES = frozenset({grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE})

#: Codes of a refusal that has no effect.
_REFUSAL_CODES = frozenset(
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

#: Codes of an answer to a call that the plugin has ended; it may have had an effect, if it is no refusal.
_ANSWER_CODES = _REFUSAL_CODES | {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}

#: The text of gRPC for a call that was not sent, because nothing accepts connections at the socket.
_NOT_CONNECTED = "failed to connect to all addresses"

_CHANNEL_OPTIONS = [
    # By default the authority is the path, escaped, which servers written in Go refuse.
    ("grpc.default_authority", "localhost"),
    # Lists of many volumes are long; a plugin on this machine is trusted with that.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # By default a plugin that returns after a while is not noticed for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class CallFailed(Exception):
    """A failed call; the text names endpoint, call and code.

    ``was_sent`` is true if the plugin may have received the request, in this attempt or an earlier one,
    ``is_retry`` if it may have in an earlier one.
    """

    def __init__(
        self, endpoint: str, call: str, code: grpc.StatusCode, details: str, was_sent: bool, is_retry: bool
    ) -> None:
        super().__init__(f"{endpoint} answers {call} with {code.name}: {details or 'it does not say why'}")
        self.code = code
        self._was_sent = was_sent
        self._is_retry = is_retry

    @property
    def refused(self) -> bool:
        """Return whether the plugin has refused the call without any effect.

        A refusal of a retry does not cover earlier attempts: one whose answer was lost, or that was still running, may
        have had an effect.
        """
        return not self._is_retry and (self.code in _REFUSAL_CODES or not self._was_sent)

    @property
    def is_answer(self) -> bool:
        """Return whether the plugin has ended the call, with or without an effect, and no longer works on it."""
        return self.code in _ANSWER_CODES

    @property
    def is_other_volume(self) -> bool:
        """Return whether the plugin has another volume of the requested name."""
        return self.code is grpc.StatusCode.ALREADY_EXISTS

    @property
    def out_of_capacity(self) -> bool:
        """Return whether the plugin lacks capacity."""
        return self.code is grpc.StatusCode.RESOURCE_EXHAUSTED


class Deadline:
    """The point in time by which several calls have to end."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the remaining seconds, at least a few milliseconds."""
        return max(self._end - time.monotonic(), 0.005)

    def has_passed(self, attempts: tenacity.RetryCallState) -> bool:
        """Return whether there is no time for the next attempt."""
        return time.monotonic() + attempts.upcoming_sleep >= self._end


class Connection:
    """Makes calls to the plugin behind ``endpoint``, which is ``unix:///path``. Thread-safe.

    The channel is opened by the first call. A process that forks must not have made one.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._channel: grpc.Channel | None = None
        self._channel_lock = threading.Lock()

    def call(
        self,
        name: str,
        request: Message,
        response_type: type[ResponseT],
        deadline: Deadline,
        transient_codes: Collection[grpc.StatusCode] = TRANSIENT_CODES,
    ) -> ResponseT:
        """Call ``Service/Method`` of ``csi.v1``, and retry after failures with ``transient_codes``.

        Raises :class:`CallFailed`.
        """
        with self._channel_lock:
            if self._channel is None:
                self._channel = grpc.insecure_channel(self.endpoint, _CHANNEL_OPTIONS)
        method = self._channel.unary_unary(
            f"/csi.v1.{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response_type.FromString,
        )
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, CallFailed) and error.code in transient_codes
            ),
            wait=tenacity.wait_random_exponential(multiplier=0.05, max=2.0),
            stop=deadline.has_passed,
            reraise=True,
        )

        was_sent = False

        def attempt() -> ResponseT:
            nonlocal was_sent
            is_retry = was_sent
            try:
                response: ResponseT = method(request, timeout=deadline.remaining())
            except grpc.RpcError as error:
                code, details = error.code(), error.details() or ""
                was_sent |= not (code is grpc.StatusCode.UNAVAILABLE and details.startswith(_NOT_CONNECTED))
                raise CallFailed(self.endpoint, name, code, details, was_sent, is_retry) from error
            return response

        return attempts(attempt)
