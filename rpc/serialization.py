# SPDX-License-Identifier: Apache-2.0
"""Conversion of messages to and from the builtins that oslo.messaging carries."""

from typing import Any, TypeVar

import msgspec

from tonnage.capacity import errors, type_conversion

T = TypeVar("T")


def pack(message: Any) -> Any:
    """Return a message as plain builtins."""
    return msgspec.to_builtins(message)


def unpack(data: Any, kind: type[T]) -> T:
    """Return the message of that kind.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` naming the field and the expected type.
    """
    try:
        return type_conversion.convert(data, kind)
    except msgspec.ValidationError as error:
        raise errors.InvalidInput(f"malformed {kind.__name__}: {error}") from None


def received(data: Any, kind: type[T]) -> T:
    """Return an answer as a message of that kind.

    Raises :class:`~tonnage.capacity.errors.Unavailable` for a malformed answer: the request was not wrong, and it may
    have been carried out.
    """
    try:
        return unpack(data, kind)
    except errors.InvalidInput as error:
        raise errors.Unavailable(f"what was answered cannot be read: {error.message}") from None
