# SPDX-License-Identifier: Apache-2.0
"""The envelope of answers: a result, or an error with its class.

oslo.messaging would send the traceback too, and raise a generated subclass whose text is that traceback. So errors
travel as answers: ``{"result": ...}`` or ``{"error": "NotFound", "message": "..."}``.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any

import oslo_messaging

from tonnage.capacity import errors
from tonnage.rpc import serialization

LOG = logging.getLogger(__name__)

_LEAVES = {leaf.__name__: leaf for leaf in errors.TonnageError.__subclasses__() if leaf.__module__ == errors.__name__}


class Guarded:
    """An endpoint whose methods always answer. Internal errors are logged here and not shown to the caller."""

    def __init__(self, endpoint: object, name: str, version: str) -> None:
        self.target = oslo_messaging.Target(version=version)
        self._endpoint, self._name = endpoint, name

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        return functools.partial(self._answer, method, getattr(self._endpoint, method))

    def _answer(self, method: str, handler: Callable[..., Any], context: Any, **arguments: Any) -> dict[str, Any]:
        try:
            return good(handler(context, **arguments))
        except Exception as error:
            return bad(error, method, self._name)


def good(value: object) -> dict[str, Any]:
    """Return the answer that carries a result."""
    return {"result": serialization.pack(value)}


def bad(error: Exception, method: str, name: str) -> dict[str, Any]:
    """Return the answer that carries an error, and log the error.

    It has the class and the message of a TonnageError; of any other exception it tells only that ``name`` failed.
    """
    kind = next((base.__name__ for base in type(error).__mro__ if base.__name__ in _LEAVES), None)
    if kind is not None and isinstance(error, errors.TonnageError):
        LOG.info("%s answers %s: %s", method, kind, error.message)
        # The caller may have a database of its own, so the message names the server.
        server = f"{name}: " if kind == errors.Unavailable.__name__ else ""
        return {"error": kind, "message": server + error.message}
    LOG.error("%s failed", method, exc_info=error)
    return {
        "error": errors.Unavailable.__name__,
        "message": f"{method} failed in {name} with an internal error; its log says more",
    }


def result(answer: Any) -> Any:
    """Return the result of an answer, or raise the error in it, with the class that it had on the server.

    Raises :class:`~tonnage.capacity.errors.Unavailable` for an answer of another form.
    """
    match answer:
        case {"error": str(kind), "message": str(message)}:
            raise _LEAVES.get(kind, errors.Unavailable)(message)
        case {"result": value}:
            return value
    raise errors.Unavailable(f"what was answered cannot be read: it is {type(answer).__name__} of no known form")
