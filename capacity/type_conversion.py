# SPDX-License-Identifier: Apache-2.0
"""Thread-safe conversion of builtins and JSON to values of a type.

msgspec collects its information about a class at the first conversion to it, and runs Python code meanwhile, so that
other threads may run. A second conversion to the class in another thread then finds incomplete information, and the
process dies of a segmentation fault (seen with msgspec 0.22). So each class is registered under a lock before its first
conversion, and no other module of Tonnage converts to types.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

#: A function ``hook(target_type, value)`` that creates values of types that msgspec does not know.
Hook = Callable[[type[Any], Any], Any]

_lock = threading.Lock()
_registered: set[Any] = set()


def convert(data: Any, target_type: type[T], hook: Hook | None = None, *, from_attributes: bool = False) -> T:
    """Convert builtins, or with ``from_attributes`` any object with the fields, to a value of a type.

    Raises :class:`msgspec.ValidationError`.
    """
    if target_type not in _registered:
        _register(target_type)
    return msgspec.convert(data, target_type, dec_hook=hook, from_attributes=from_attributes)  # noqa: TID251


def decode(raw: bytes | str, target_type: type[T], hook: Hook | None = None) -> T:
    """Decode JSON to a value of a type.

    Raises :class:`msgspec.DecodeError` (:class:`msgspec.ValidationError` is a subclass), UnicodeDecodeError, and
    RecursionError for data that is nested too deeply.
    """
    if target_type not in _registered:
        _register(target_type)
    return msgspec.json.decode(raw, type=target_type, dec_hook=hook)


def _register(target_type: Any) -> None:
    with _lock:
        msgspec.json.Decoder(target_type)
    _registered.add(target_type)
