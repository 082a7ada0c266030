# SPDX-License-Identifier: Apache-2.0
"""Pages of rows: an order, a place to go on from, and how many.

A page goes on after a row (the marker) and not at an offset, so rows that come and go meanwhile neither repeat others
nor hide them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors

#: What rows may be ordered by: names, and how each is read from the table. Never null: databases disagree on its place.
SortKeys: TypeAlias = Mapping[str, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Order:
    """One key to order by."""

    key: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is wanted. ``marker`` is the id of the last row of the page before."""

    limit: int
    marker: str | None = None
    order: Sequence[Order] = (Order("created_at", True), Order("id", True))


def cut(statement: sa.Select[Any], model: type[Any], keys: SortKeys, page: Page) -> sa.Select[Any]:
    """Return the statement ordered and limited to the page.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for an order by something that is no sort key.
    """
    # What was ordered by already orders no more; without this an order could be as long as a client likes.
    first: dict[str, Order] = {}
    for item in page.order:
        first.setdefault(item.key, item)
    order = list(first.values())
    if all(item.key != "id" for item in order):
        # Without it rows with equal keys could be skipped between two pages.
        order.append(Order("id", order[-1].descending if order else False))
    for item in order:
        if item.key not in keys:
            raise errors.InvalidInput(f"cannot sort by {item.key!r}: expected one of {', '.join(sorted(keys))}")
    columns = [keys[item.key](model) for item in order]
    if page.marker is not None:
        other = orm.aliased(model)
        # The database compares its own values: SQLite keeps fewer digits of a time than Python would send.
        marks = [sa.select(keys[item.key](other)).where(other.id == page.marker).scalar_subquery() for item in order]
        statement = statement.where(_after(columns, marks, order))
    return statement.order_by(
        *(column.desc() if item.descending else column.asc() for column, item in zip(columns, order, strict=True))
    ).limit(page.limit)


def _after(columns: Sequence[Any], marks: Sequence[Any], order: Sequence[Order]) -> sa.ColumnElement[bool]:
    """Return "comes after the marker" in lexicographic order."""
    cases = []
    for i, item in enumerate(order):
        equal = [column == mark for column, mark in zip(columns[:i], marks[:i], strict=True)]
        cases.append(sa.and_(*equal, columns[i] < marks[i] if item.descending else columns[i] > marks[i]))
    return sa.or_(*cases)
