# SPDX-License-Identifier: Apache-2.0
"""What the methods of resources take and answer, noted where they are.

The types are those that requests are checked by and that answers are made of, so that the OpenAPI document, which is
made of these notes, says what is so.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from tonnage.api.http.list_query import NOTHING, Query

#: A path, what is there, and which of its methods are meant: a suffix of their names.
Route: TypeAlias = tuple[str, object, str | None]

F = TypeVar("F", bound=Callable[..., None])

_NOTE = "operation"


class Open:
    """What a resource is that answers everybody, and so does not know who asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A header of a request. ``pattern`` is what it is checked by."""

    name: str
    description: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a method takes and answers.

    ``answers`` has the type of the body for each status of success, None for no body. ``bodies`` are the types that the
    request may be of; ``actions`` are those of the arguments of the actions that its only key may name. ``names`` has
    patterns of parameters of the path, where not every text is a name. ``errors`` are the statuses that it may answer
    beside those that any operation may.
    """

    answers: Mapping[int, Any]
    bodies: tuple[Any, ...] = ()
    actions: Mapping[str, Any] | None = None
    query: Query = NOTHING
    headers: tuple[Header, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    errors: Collection[int] = ()


def operation(
    answers: Mapping[int, Any],
    *,
    bodies: tuple[Any, ...] = (),
    actions: Mapping[str, Any] | None = None,
    query: Query = NOTHING,
    headers: tuple[Header, ...] = (),
    names: Mapping[str, str] | None = None,
    errors: Collection[int] = (),
) -> Callable[[F], F]:
    """Note what a method takes and answers, see :class:`Operation`."""
    note = Operation(
        answers=answers,
        bodies=bodies,
        actions=actions,
        query=query,
        headers=headers,
        names=names or {},
        errors=errors,
    )

    def mark(responder: F) -> F:
        setattr(responder, _NOTE, note)
        return responder

    return mark


def noted(responder: Callable[..., None]) -> Operation | None:
    """Return what was noted of a method, None if nothing was."""
    found: Operation | None = getattr(responder, _NOTE, None)
    return found
