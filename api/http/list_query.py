# SPDX-License-Identifier: Apache-2.0
"""Query strings of lists: order, page, filters, and the link to the next page."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib import parse

from msgspec import UNSET, UnsetType

from tonnage.api.http.http_request import Request
from tonnage.api.schemas import booleans, response_bodies
from tonnage.api.schemas.fields import MAX_LENGTH
from tonnage.capacity import errors
from tonnage.ledger.db import paging

#: Parameters that are not filters.
_CONTROL_PARAMETERS = frozenset(
    {"limit", "marker", "offset", "sort", "sort_key", "sort_dir", "all_tenants", "with_count"}
)

#: Most characters of a filter: those of the full name of a pool, ``host@backend#pool``. A database compares no text of
#: any length with a pattern.
_MAX_FILTER = 2 * MAX_LENGTH + 1

#: Filters whose value is no single text of a column.
_LONG_FILTERS = frozenset({"metadata", "extra_specs"})

#: Most digits of a number in a query.
_DIGITS = 18


def read_parameters(req: Request) -> Mapping[str, str]:
    """Return the query parameters; for a repeated one, its last value.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for text with NUL, which a database cannot compare.
    """
    parameters = {key: value[-1] if isinstance(value, list) else value for key, value in req.params.items()}
    for key, value in parameters.items():
        if "\x00" in key or "\x00" in value:
            raise errors.InvalidInput(f"query parameter {key!r} cannot contain the character NUL")
    return parameters


def boolean(parameters: Mapping[str, str], name: str) -> bool:
    """Return a boolean parameter; false if it is missing.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for a value that is not a boolean.
    """
    text = parameters.get(name, "false")
    if text not in booleans.WORDS:
        raise errors.InvalidInput(f"{name} is {text!r}: expected true or false")
    return booleans.WORDS[text]


def _require_known_filters(names: Collection[str], filters: Collection[str]) -> None:
    """Raise :class:`~tonnage.capacity.errors.InvalidInput` with the unknown names, if there are any."""
    unknown = sorted(set(names) - _CONTROL_PARAMETERS - set(filters))
    if unknown:
        raise errors.InvalidInput(
            f"Invalid filters {', '.join(unknown)} are found in query options; known are {', '.join(sorted(filters))}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The query parameters of an operation, for the validation of requests and for the OpenAPI document.

    A list with pages has ``sort_keys``. ``required`` are filters that a request must have. ``patterns`` are regular
    expressions for the values of filters. ``words`` maps parameters to their accepted values. ``other_parameters``
    describes parameters with other names; if it is None, they are errors.
    """

    sort_keys: Collection[str] = ()
    offset: bool = False
    flags: Collection[str] = ()
    filters: Collection[str] = ()
    required: Collection[str] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, Collection[str]] = field(default_factory=dict)
    other_parameters: str | None = None

    def read(self, req: Request) -> Mapping[str, str]:
        """Return the parameters of a request.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown parameter or an invalid value.
        """
        parameters = read_parameters(req)
        if self.other_parameters is None:
            _require_known_filters(parameters.keys() - self.schemas().keys(), self.filters)
        for name in self.required:
            if not parameters.get(name):
                raise errors.InvalidInput(f"query parameter {name} is missing")
        for name in parameters.keys() & set(self.filters) - _LONG_FILTERS:
            if len(parameters[name]) > _MAX_FILTER:
                raise errors.InvalidInput(
                    f"{name} has {len(parameters[name])} characters: at most {_MAX_FILTER} are allowed"
                )
        for name in parameters.keys() & set(self.flags):
            boolean(parameters, name)
        for name in parameters.keys() & self.words.keys():
            if parameters[name] not in self.words[name]:
                raise errors.InvalidInput(f"{name} is {parameters[name]!r}: expected {', '.join(self.words[name])}")
        return parameters

    def select_filters(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """Return the filters among the parameters."""
        return {name: value for name, value in parameters.items() if name in self.filters}

    def schemas(self) -> dict[str, dict[str, Any]]:
        """Return the JSON Schema of each parameter."""
        text = {"type": "string"}
        schemas: dict[str, dict[str, Any]] = {
            name: text if name in _LONG_FILTERS else {"type": "string", "maxLength": _MAX_FILTER}
            for name in sorted(self.filters)
        }
        schemas |= {name: {"type": "string", "pattern": pattern} for name, pattern in self.patterns.items()}
        schemas |= {name: {**schemas.get(name, text), "minLength": 1} for name in self.required}
        schemas |= {name: {"type": "string", "enum": list(words)} for name, words in self.words.items()}
        schemas |= {name: {"type": "string", "enum": list(booleans.WORDS)} for name in self.flags}
        if self.sort_keys:
            keys = "|".join(sorted(self.sort_keys))
            sort_pattern = f"({keys})(:(asc|desc))?"
            number = {"type": "integer", "minimum": 0, "maximum": 10**_DIGITS - 1}
            schemas |= {
                "limit": number,
                "marker": text,
                "offset": number if self.offset else {"type": "integer", "const": 0},
                "sort": {"type": "string", "pattern": f"^{sort_pattern}(,{sort_pattern})*$"},
                "sort_key": {"type": "string", "enum": sorted(self.sort_keys)},
                "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
            }
        return schemas


#: No parameters. Others are ignored, as clients of other releases may send some.
NO_PARAMETERS = Query(other_parameters="ignored")


@dataclass(frozen=True, slots=True)
class Paginator:
    """Reads the page from the parameters of a request. ``max_limit`` is the option ``osapi_max_limit``."""

    max_limit: int

    def page(self, parameters: Mapping[str, str]) -> paging.Page:
        """Return the requested page. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
        limit = parameters.get("limit")
        if limit is not None and not is_number(limit):
            raise errors.InvalidInput(f"limit is {limit!r}: expected a whole number from 0 to {self.max_limit}")
        if parameters.get("offset", "0") != "0":
            raise errors.InvalidInput(f"offset is {parameters['offset']!r}: go on from an item with marker instead")
        return paging.Page(
            limit=self.max_limit if limit is None else min(int(limit), self.max_limit),
            marker=parameters.get("marker"),
            order=_order(parameters),
        )

    def links(self, req: Request, page: paging.Page, items: Sequence[Any]) -> list[response_bodies.Link] | UnsetType:
        """Return the link to the next page, UNSET if this page is not full."""
        if not items or len(items) < page.limit:
            return UNSET
        query = parse.urlencode({**read_parameters(req), "limit": page.limit, "marker": items[-1].id})
        return [response_bodies.Link("next", f"{req.prefix}{parse.quote(req.path)}?{query}")]


def is_number(text: str) -> bool:
    """Return whether a text is a whole number of at most 18 digits, without a sign."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _order(parameters: Mapping[str, str]) -> tuple[paging.Order, ...]:
    if "sort" in parameters:
        if "sort_key" in parameters or "sort_dir" in parameters:
            # The text is that of Cinder.
            raise errors.InvalidInput(
                "The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with the 'sort' parameter."
            )
        pairs = [item.strip().partition(":") for item in parameters["sort"].split(",")]
        orders = [(key, direction or "desc") for key, _, direction in pairs]
    elif "sort_key" in parameters or "sort_dir" in parameters:
        orders = [(parameters.get("sort_key", "created_at"), parameters.get("sort_dir", "desc"))]
    else:
        return paging.Page(limit=0).order  # type: ignore[return-value]
    for _, direction in orders:
        if direction not in ("asc", "desc"):
            raise errors.InvalidInput(f"sort direction is {direction!r}: expected asc or desc")
    return tuple(paging.Order(key, direction == "desc") for key, direction in orders)
