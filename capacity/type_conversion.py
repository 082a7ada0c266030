# SPDX-License-Identifier: Apache-2.0
"""Builtins and JSON as values of a type, from any thread.

msgspec collects what it has to know of a class when a value of it is asked for first, and runs Python code meanwhile,
in which other threads get their turn. One that asks for a value of that class then finds half of it, and the process
dies of a segmentation fault (seen with msgspec 0.22). So a class is made known under a lock before it is asked for, and
nothing else in Tonnage converts to types.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

#: Makes values of types of ours, which msgspec does not know: ``hook(kind, value)``.
Hook = Callable[[type[Any], Any], Any]

_lock = threading.Lock()
_known: set[Any] = set()


def convert(data: Any, kind: type[T], hook: Hook | None = None, *, from_attributes: bool = False) -> T:
    """Return builtins, or with ``from_attributes`` any object that has the fields, as a value of that type.

    Raises :class:`msgspec.ValidationError`.
    """
    _make_known(kind)
    return msgspec.convert(data, kind, dec_hook=hook, from_attributes=from_attributes)  # noqa: TID251


def decode(raw: bytes | str, kind: type[T], hook: Hook | None = None) -> T:
    """Return JSON as a value of that type.

    Raises :class:`msgspec.DecodeError`, of which :class:`msgspec.ValidationError` is one, UnicodeDecodeError, and
    RecursionError for what is nested too deeply.
    """
    _make_known(kind)
    return msgspec.json.decode(raw, type=kind, dec_hook=hook)


def _make_known(kind: Any) -> None:
    if kind not in _known:
        with _lock:
            msgspec.json.Decoder(kind)
        _known.add(kind)
