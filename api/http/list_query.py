# SPDX-License-Identifier: Apache-2.0
"""Lists: what the query string says of order, page and filters, and the link to the next page."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib import parse

from msgspec import UNSET, UnsetType

from tonnage.api.http import booleans
from tonnage.api.http.http_request import Request
from tonnage.api.schemas import response_bodies
from tonnage.capacity import errors
from tonnage.ledger.db import paging

#: Parameters that say how to list, not what.
_STEERING = frozenset({"limit", "marker", "offset", "sort", "sort_key", "sort_dir", "all_tenants", "with_count"})

#: Most digits of a number in a query.
_DIGITS = 18


def parameters(req: Request) -> Mapping[str, str]:
    """Return the query parameters, of a repeated one the last.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for text that a database cannot compare.
    """
    found = {key: value[-1] if isinstance(value, list) else value for key, value in req.params.items()}
    for key, value in found.items():
        if "\x00" in key or "\x00" in value:
            raise errors.InvalidInput(f"query parameter {key!r} cannot contain the character NUL")
    return found


def flag(given: Mapping[str, str], name: str) -> bool:
    """Return a parameter that is true or false; false if it is not there.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for anything else.
    """
    text = given.get(name, "false")
    if text not in booleans.WORDS:
        raise errors.InvalidInput(f"{name} is {text!r}: expected true or false")
    return booleans.WORDS[text]


def filters(given: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Return the filters among the parameters.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` naming those that are not known.
    """
    chosen = {key: value for key, value in given.items() if key not in _STEERING}
    unknown = sorted(chosen.keys() - set(known))
    if unknown:
        raise errors.InvalidInput(
            f"Invalid filters {', '.join(unknown)} are found in query options; known are {', '.join(sorted(known))}."
        )
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The query parameters that an operation knows: what they are read by, and what is told of them.

    ``sort_keys`` are those of a list that comes in pages. ``required`` are filters that cannot be left out, and
    ``patterns`` what filters take that do not take any text. ``words`` are parameters with the words that each takes.
    ``more`` is what is said of parameters by other names, None where there are none.
    """

    sort_keys: Collection[str] = ()
    offset: bool = False
    flags: Collection[str] = ()
    filters: Collection[str] = ()
    required: Collection[str] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, Collection[str]] = field(default_factory=dict)
    more: str | None = None

    def read(self, req: Request) -> Mapping[str, str]:
        """Return the parameters of a request.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for one that is not known or cannot be meant.
        """
        given = parameters(req)
        if self.more is None:
            filters({name: given[name] for name in given.keys() - self.schemas().keys()}, self.filters)
        for name in self.required:
            if not given.get(name):
                raise errors.InvalidInput(f"query parameter {name} is missing")
        for name in given.keys() & set(self.flags):
            flag(given, name)
        for name in given.keys() & self.words.keys():
            if given[name] not in self.words[name]:
                raise errors.InvalidInput(f"{name} is {given[name]!r}: expected {', '.join(self.words[name])}")
        return given

    def chosen(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the filters among the parameters."""
        return {name: value for name, value in given.items() if name in self.filters}

    def schemas(self) -> dict[str, dict[str, Any]]:
        """Return what each parameter may be, as JSON Schema."""
        text = {"type": "string"}
        found: dict[str, dict[str, Any]] = dict.fromkeys(sorted(self.filters), text)
        found |= {name: {"type": "string", "pattern": pattern} for name, pattern in self.patterns.items()}
        found |= {name: {"type": "string", "minLength": 1} for name in self.required}
        found |= {name: {"type": "string", "enum": list(words)} for name, words in self.words.items()}
        found |= {name: {"type": "string", "enum": list(booleans.WORDS)} for name in self.flags}
        if self.sort_keys:
            keys = "|".join(sorted(self.sort_keys))
            one = f"({keys})(:(asc|desc))?"
            number = {"type": "integer", "minimum": 0, "maximum": 10**_DIGITS - 1}
            found |= {
                "limit": number,
                "marker": text,
                "offset": number if self.offset else {"type": "integer", "const": 0},
                "sort": {"type": "string", "pattern": f"^{one}(,{one})*$"},
                "sort_key": {"type": "string", "enum": sorted(self.sort_keys)},
                "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
            }
        return found


#: No parameters: others are ignored, as clients of other releases send some.
NOTHING = Query(more="ignored")


@dataclass(frozen=True, slots=True)
class Lists:
    """Reads pages out of requests. ``longest`` is ``osapi_max_limit``."""

    longest: int

    def page(self, given: Mapping[str, str]) -> paging.Page:
        """Return the page that is asked for. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
        limit = given.get("limit")
        if limit is not None and not is_number(limit):
            raise errors.InvalidInput(f"limit is {limit!r}: expected a whole number from 0 to {self.longest}")
        if given.get("offset", "0") != "0":
            raise errors.InvalidInput(f"offset is {given['offset']!r}: go on from an item with marker instead")
        return paging.Page(
            limit=self.longest if limit is None else min(int(limit), self.longest),
            marker=given.get("marker"),
            order=_order(given),
        )

    def links(self, req: Request, page: paging.Page, items: Sequence[Any]) -> list[response_bodies.Link] | UnsetType:
        """Return the way to the next page, UNSET if this one is not full."""
        if not items or len(items) < page.limit:
            return UNSET
        query = parse.urlencode({**parameters(req), "limit": page.limit, "marker": items[-1].id})
        return [response_bodies.Link("next", f"{req.prefix}{parse.quote(req.path)}?{query}")]


def is_number(text: str) -> bool:
    """Tell whether a text is a whole number, not too long, without a sign."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _order(given: Mapping[str, str]) -> tuple[paging.Order, ...]:
    if "sort" in given:
        if "sort_key" in given or "sort_dir" in given:
            # As Cinder says it.
            raise errors.InvalidInput(
                "The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with the 'sort' parameter."
            )
        pairs = [item.strip().partition(":") for item in given["sort"].split(",")]
        wanted = [(key, direction or "desc") for key, _, direction in pairs]
    elif "sort_key" in given or "sort_dir" in given:
        wanted = [(given.get("sort_key", "created_at"), given.get("sort_dir", "desc"))]
    else:
        return paging.Page(limit=0).order  # type: ignore[return-value]
    for _, direction in wanted:
        if direction not in ("asc", "desc"):
            raise errors.InvalidInput(f"sort direction is {direction!r}: expected asc or desc")
    return tuple(paging.Order(key, direction == "desc") for key, direction in wanted)
