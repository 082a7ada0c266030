# SPDX-License-Identifier: Apache-2.0
"""Pages of a list: a sort order, a start and a length.

A page starts after a row (the marker) and not at an offset, so rows that are added or removed meanwhile neither repeat
nor hide other rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors

#: Maps each sort key to a function that returns its column. No column may be null: databases disagree on the position
#: of nulls.
SortKeys: TypeAlias = Mapping[str, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Order:
    """One key of a sort order."""

    key: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that is requested. ``marker`` is the id of the last row of the page before."""

    limit: int
    marker: str | None = None
    order: Sequence[Order] = (Order("created_at", True), Order("id", True))


def apply(statement: sa.Select[Any], model: type[Any], keys: SortKeys, page: Page) -> sa.Select[Any]:
    """Return the statement, sorted and limited to the page.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for a key that is not in ``keys``.
    """
    # A repeated key does not change the order. Dropping it bounds the length of the order, however long the client's
    # list is.
    unique: dict[str, Order] = {}
    for item in page.order:
        unique.setdefault(item.key, item)
    order = list(unique.values())
    if all(item.key != "id" for item in order):
        # Without the id, rows with equal keys could be skipped between two pages.
        order.append(Order("id", order[-1].descending if order else False))
    for item in order:
        if item.key not in keys:
            raise errors.InvalidInput(f"cannot sort by {item.key!r}: expected one of {', '.join(sorted(keys))}")
    columns = [keys[item.key](model) for item in order]
    if page.marker is not None:
        marker_row = orm.aliased(model)
        # The marker's values are read by the database: SQLite stores fewer digits of a time than Python would send.
        marker_values = [
            sa.select(keys[item.key](marker_row)).where(marker_row.id == page.marker).scalar_subquery()
            for item in order
        ]
        statement = statement.where(_after(columns, marker_values, order))
    return statement.order_by(
        *(column.desc() if item.descending else column.asc() for column, item in zip(columns, order, strict=True))
    ).limit(page.limit)


def _after(columns: Sequence[Any], marker_values: Sequence[Any], order: Sequence[Order]) -> sa.ColumnElement[bool]:
    """Return the condition that a row comes after the marker in lexicographic order."""
    cases = []
    for i, item in enumerate(order):
        equal = [column == mark for column, mark in zip(columns[:i], marker_values[:i], strict=True)]
        cases.append(
            sa.and_(*equal, columns[i] < marker_values[i] if item.descending else columns[i] > marker_values[i])
        )
    return sa.or_(*cases)
