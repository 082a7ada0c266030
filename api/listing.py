# SPDX-License-Identifier: Apache-2.0
"""Lists: what the query string says of order, page and filters, and the link to the next page."""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib import parse

from oslo_utils import strutils

from tonnage.api.http import Request
from tonnage.capacity import errors
from tonnage.ledger import paging

#: Parameters that say how to list, not what.
_STEERING = frozenset({"limit", "marker", "offset", "sort", "sort_key", "sort_dir", "all_tenants", "with_count"})


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
    try:
        return strutils.bool_from_string(given.get(name, "false"), strict=True)
    except ValueError:
        raise errors.InvalidInput(f"{name} is {given[name]!r}: expected true or false") from None


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


@dataclass(frozen=True, slots=True)
class Lists:
    """Reads pages out of requests. ``longest`` is ``osapi_max_limit``."""

    longest: int

    def page(self, given: Mapping[str, str]) -> paging.Page:
        """Return the page that is asked for. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
        limit = given.get("limit", "")
        if limit and not (limit.isascii() and limit.isdigit() and len(limit) <= 18):
            raise errors.InvalidInput(f"limit is {limit!r}: expected a whole number from 0 to {self.longest}")
        if given.get("offset", "0") != "0":
            raise errors.InvalidInput(f"offset is {given['offset']!r}: go on from an item with marker instead")
        return paging.Page(
            limit=min(int(limit), self.longest) if limit else self.longest,
            marker=given.get("marker"),
            order=_order(given),
        )

    def links(self, req: Request, name: str, page: paging.Page, items: Sequence[Any]) -> dict[str, Any]:
        """Return ``{name}_links`` with the way to the next page, or nothing if this one is not full."""
        if not items or len(items) < page.limit:
            return {}
        query = parse.urlencode({**parameters(req), "limit": page.limit, "marker": items[-1].id})
        return {f"{name}_links": [{"rel": "next", "href": f"{req.prefix}{req.path}?{query}"}]}


def _order(given: Mapping[str, str]) -> tuple[paging.Order, ...]:
    if "sort" in given:
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
