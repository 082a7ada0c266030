# SPDX-License-Identifier: Apache-2.0
"""Conversion of messages to and from the builtins that oslo.messaging carries, and the envelope of answers.

oslo.messaging would send the traceback of an error too, and raise a generated subclass whose text is that traceback. So
errors travel as answers: ``{"result": ...}`` or ``{"error": "NotFound", "message": "..."}``, with ``seconds`` for
:class:`~tonnage.capacity.errors.Busy`.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec
import oslo_messaging

from tonnage.capacity import errors, type_conversion

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_LEAVES = {
    leaf.__name__: leaf
    for leaf in (*errors.TonnageError.__subclasses__(), *errors.Unavailable.__subclasses__(), errors.LedgerRefusal)
    if leaf.__module__ == errors.__name__
}


def pack(message: Any) -> Any:
    """Return a message as plain builtins."""
    return msgspec.to_builtins(message)


def unpack(data: Any, message_type: type[T]) -> T:
    """Return the message of type ``message_type``.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` naming the field and the expected type.
    """
    try:
        return type_conversion.convert(data, message_type)
    except msgspec.ValidationError as error:
        raise errors.InvalidInput(f"malformed {message_type.__name__}: {error}") from None


class Readiness(Protocol):
    """The readiness of a server for calls."""

    def require_ready(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.Unavailable` if the server can begin no call now."""


class Guarded:
    """An endpoint whose methods always answer. Internal errors are logged here and not shown to the caller.

    No call begins while ``readiness``, if given, raises an error.
    """

    def __init__(self, endpoint: object, name: str, version: str, readiness: Readiness | None = None) -> None:
        self.target = oslo_messaging.Target(version=version)
        self._endpoint, self._name, self._readiness = endpoint, name, readiness

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        return functools.partial(self._answer, method, getattr(self._endpoint, method))

    def _answer(self, method: str, handler: Callable[..., Any], context: Any, **arguments: Any) -> dict[str, Any]:
        try:
            if self._readiness is not None:
                self._readiness.require_ready()
            return good(handler(context, **arguments))
        except Exception as error:
            return bad(error, method, self._name)


def good(value: object) -> dict[str, Any]:
    """Return the answer that carries a result."""
    return {"result": pack(value)}


def bad(error: Exception, method: str, name: str) -> dict[str, Any]:
    """Return the answer that carries an error, and log the error.

    It has the class and the message of a TonnageError; of any other exception it tells only that ``name`` failed.
    """
    error_name = next((base.__name__ for base in type(error).__mro__ if base.__name__ in _LEAVES), None)
    if error_name is not None and isinstance(error, errors.TonnageError):
        # The outage or the refusal is in the log already, and a declined call is sent again several times.
        postponed = isinstance(error, (errors.DatabaseUnreachable, errors.Declined, errors.Busy, errors.WrongStorage))
        LOG.log(logging.DEBUG if postponed else logging.INFO, "%s answers %s: %s", method, error_name, error.message)
        # The caller may have a database of its own, so the message names the server.
        server = f"{name}: " if error_name == errors.Unavailable.__name__ else ""
        answer = {"error": error_name, "message": server + error.message}
        return {**answer, "seconds": error.seconds} if isinstance(error, errors.Busy) else answer
    LOG.error("%s failed", method, exc_info=error)
    return {
        "error": errors.Unavailable.__name__,
        "message": f"{method} failed in {name} with an internal error; its log says more",
    }


def result(answer: Any, result_type: type[T]) -> T:
    """Return the result in an answer as a message of type ``result_type``, or raise the error in the answer.

    The error has the class that it has on the server. Raises :class:`~tonnage.capacity.errors.Unavailable` for a
    malformed answer: the request was not wrong, and it may have been carried out.
    """
    match answer:
        case {"error": errors.Busy.__name__, "message": str(message), "seconds": int() | float() as seconds}:
            raise errors.Busy(message, seconds)
        case {"error": str(name), "message": str(message)}:
            raise _LEAVES.get(name, errors.Unavailable)(message)
        case {"result": value}:
            try:
                return unpack(value, result_type)
            except errors.InvalidInput as error:
                raise errors.Unavailable(f"the answer cannot be read: {error.message}") from None
    raise errors.Unavailable(f"the answer cannot be read: it is {type(answer).__name__} of no known form")
