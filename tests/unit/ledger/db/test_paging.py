# SPDX-License-Identifier: Apache-2.0
"""Pages cover every row once and in order, for every sort order."""

import itertools
import operator
import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers import ledger_schema
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import volumes
from tonnage.ledger.db import database, paging

KEYS = ("name", "size", "status", "availability_zone")


@pytest.fixture(scope="module")
def ledger() -> Iterator[database.Database]:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    access = database.Database(engine)
    yield access
    access.close()


rows = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from([None, "", "a", "b"]),
            "size_gb": st.integers(1, 3),
            "status": st.sampled_from(["available", "error"]),
            "availability_zone": st.sampled_from([None, "x"]),
        }
    ),
    max_size=12,
)
orders = st.lists(st.builds(paging.Order, st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(rows=rows, order=orders, limit=st.integers(1, 5))
def test_pages_cover_every_row_once_in_order(
    ledger: database.Database, rows: list[dict[str, object]], order: list[paging.Order], limit: int
) -> None:
    project = uuid.uuid4().hex

    def add(session: sa.orm.Session) -> None:
        session.add_all(models.Volume(id=str(uuid.uuid4()), project_id=project, **row) for row in rows)

    ledger.run(add)
    query = volumes.Query(project_id=project)
    seen: list[models.Volume] = []
    with ledger.reading() as session:
        for _ in itertools.count():
            marker = seen[-1].id if seen else None
            page = volumes.page(session, query, paging.Page(limit, marker, order))
            seen += page
            if len(page) < limit:
                break
        assert volumes.count(session, query) == len(rows)
    assert len({volume.id for volume in seen}) == len(seen) == len(rows)
    read = {
        "name": lambda volume: volume.name or "",
        "size": operator.attrgetter("size_gb"),
        "status": operator.attrgetter("status"),
        "availability_zone": lambda volume: volume.availability_zone or "",
    }
    expected = list(seen)
    for item in reversed(order):
        expected.sort(key=read[item.key], reverse=item.descending)
    values = [[read[item.key](volume) for item in order] for volume in seen]
    assert values == [[read[item.key](volume) for item in order] for volume in expected]


def test_an_unknown_sort_key_is_named(ledger: database.Database) -> None:
    page = paging.Page(5, None, [paging.Order("colour")])
    with ledger.reading() as session, pytest.raises(errors.InvalidInput, match="cannot sort by 'colour': expected one"):
        volumes.page(session, volumes.Query(project_id=None), page)


def test_a_page_of_length_zero_is_empty(ledger: database.Database) -> None:
    with ledger.reading() as session:
        assert volumes.page(session, volumes.Query(project_id=None), paging.Page(0)) == []


def test_repeated_sort_keys_are_dropped() -> None:
    # Each further key would double the work; a query string has room for thousands.
    order = [paging.Order("name"), paging.Order("size", True), *[paging.Order("name", True)] * 5000]
    statement = paging.apply(sa.select(models.Volume), models.Volume, volumes.SORT_KEYS, paging.Page(1, "x", order))
    short = paging.apply(sa.select(models.Volume), models.Volume, volumes.SORT_KEYS, paging.Page(1, "x", order[:2]))
    assert str(statement) == str(short)
