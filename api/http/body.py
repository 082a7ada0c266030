# SPDX-License-Identifier: Apache-2.0
"""The reader of request bodies.

A body is decoded once, up to a maximal size, and converted to a type of ``tonnage.api.schemas``. The error for an
invalid body has the field, its value and the expected value.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import falcon
import msgspec

from tonnage.api.http import middleware
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors, type_conversion

T = TypeVar("T")

_JSON_TYPES = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;|$)", re.IGNORECASE)
_LOCATION = re.compile(r" - at (?P<key>`key` in )?`(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
#: The character NUL as JSON writes it.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_MAX_VALUE_LENGTH = 60


class BodyReader:
    """Decodes bodies up to a maximal size."""

    def __init__(self, limit: middleware.BodyLimit) -> None:
        self._limit = limit

    def read(self, req: Request, body_type: type[T]) -> T:
        """Return the body as a value of the type ``body_type``.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` with the field, the value and the expected value, and
        falcon's errors for a body that is not JSON or too large.
        """
        return convert(self.decode(req), body_type)

    def decode(self, req: Request) -> Any:
        """Return the body as builtins. Raises as :meth:`read` does."""
        stream = req.stream if req.content_length is None else req.bounded_stream
        is_sent = req.content_length is not None or "chunked" in (req.get_header("Transfer-Encoding") or "").lower()
        raw = self._limit.read(stream) if is_sent else b""
        if not raw:
            raise falcon.HTTPBadRequest(description="The request has no body: expected a JSON object.")
        # Required also for security: a page of another site cannot make a browser send this type without a preflight.
        if not _JSON_TYPES.match(req.content_type or ""):
            raise falcon.HTTPUnsupportedMediaType(
                description=f"Content-Type is {req.content_type or 'missing'!r}: expected application/json."
            )
        if has_nul(raw):
            raise falcon.HTTPBadRequest(description="Malformed request body: text cannot contain the character NUL.")
        try:
            data = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise falcon.HTTPBadRequest(description=f"Malformed request body: {error}.") from None
        if not isinstance(data, dict):
            raise falcon.HTTPBadRequest(description=f"The request's body is {_show(data)}: expected a JSON object.")
        return data


def has_nul(raw: bytes) -> bool:
    """Return whether a text in JSON has the character NUL, which some databases cannot store."""
    # The search takes 30 ms for each megabyte, and few bodies have anything like it.
    return rb"\u0000" in raw and _NUL.search(raw) is not None


def convert(data: Any, target_type: type[T]) -> T:
    """Return builtins as a value of the type ``target_type``. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
    try:
        return type_conversion.convert(data, target_type, _parse)
    except msgspec.ValidationError as error:
        raise errors.InvalidInput(_explain(str(error), data)) from None


def only_key(sent: Mapping[str, Any], action_names: Collection[str]) -> tuple[str, Any]:
    """Return the only key of a body, which is the name of an action, and its value, the arguments.

    Raises :class:`~tonnage.capacity.errors.InvalidInput`.
    """
    if len(sent) != 1:
        raise errors.InvalidInput(f"the body names {len(sent)} actions: expected exactly one")
    name, arguments = next(iter(sent.items()))
    if name not in action_names:
        raise errors.InvalidInput(f"There is no such action: {name[:64]}. Known are {', '.join(sorted(action_names))}.")
    return name, arguments


def _parse(target_type: type[Any], value: Any) -> Any:
    """Return a value of a type that has a method ``parse``."""
    return target_type.parse(value)


def _explain(text: str, data: Any) -> str:
    """Return the message for an error of msgspec, with the field and its value."""
    match = _LOCATION.search(text)
    problem = (text if match is None else text[: match.start()]).replace("`", "")
    problem = problem[:1].lower() + problem[1:]
    if match is None:
        return f"Invalid input: {problem}."
    path = match["path"].lstrip("$.") or "the body"
    if match["key"]:
        return f"Invalid input for a key of {path}: {problem}."
    value = data
    for key, index in _STEP.findall(match["path"]):
        try:
            value = value[int(index)] if index else value[key]
        except (KeyError, IndexError, TypeError):
            # msgspec writes "[...]" for the keys of a mapping.
            value = {}
    prefix = "" if isinstance(value, dict) else f"{_show(value)}: "
    return f"Invalid input for {path}: {prefix}{problem}."


def _show(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_VALUE_LENGTH else text[:_MAX_VALUE_LENGTH] + "..."
