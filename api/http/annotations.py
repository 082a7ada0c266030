# SPDX-License-Identifier: Apache-2.0
"""Annotations of the methods of resources with the types of their requests and responses.

The types are the same that validate requests and build responses, so the OpenAPI document, which is generated from the
annotations, matches the code.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from tonnage.api.http.list_query import NO_PARAMETERS, Query

#: A path, its resource, and the suffix in the names of the resource's methods for this path (None for no suffix).
Route: TypeAlias = tuple[str, object, str | None]

F = TypeVar("F", bound=Callable[..., None])

_ATTRIBUTE = "operation"


class PublicResource:
    """The base class of resources without authentication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A header of a request. ``pattern`` is the regular expression of its values."""

    name: str
    description: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The requests and responses of a method.

    ``answers`` maps each status of success to the type of the body, None for no body. ``bodies`` are the accepted types
    of the request's body. ``actions`` maps the names of actions, one of which is the only key of the body, to the types
    of their arguments. ``names`` has regular expressions for parameters of the path. ``errors`` are the error statuses
    in addition to those of all operations.
    """

    answers: Mapping[int, Any]
    bodies: tuple[Any, ...] = ()
    actions: Mapping[str, Any] | None = None
    query: Query = NO_PARAMETERS
    headers: tuple[Header, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    errors: Collection[int] = ()


def operation(
    answers: Mapping[int, Any],
    *,
    bodies: tuple[Any, ...] = (),
    actions: Mapping[str, Any] | None = None,
    query: Query = NO_PARAMETERS,
    headers: tuple[Header, ...] = (),
    names: Mapping[str, str] | None = None,
    errors: Collection[int] = (),
) -> Callable[[F], F]:
    """Return a decorator that annotates a method; the parameters are those of :class:`Operation`."""
    annotation = Operation(
        answers=answers,
        bodies=bodies,
        actions=actions,
        query=query,
        headers=headers,
        names=names or {},
        errors=errors,
    )

    def mark(responder: F) -> F:
        setattr(responder, _ATTRIBUTE, annotation)
        return responder

    return mark


def operation_of(responder: Callable[..., None]) -> Operation | None:
    """Return the annotation of a method, None if it has none."""
    annotation: Operation | None = getattr(responder, _ATTRIBUTE, None)
    return annotation
