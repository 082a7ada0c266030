# SPDX-License-Identifier: Apache-2.0
"""The SQL statements of the documentation work on every database."""

import pathlib
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger.db import database

DOCS = pathlib.Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"\.\. code-block:: sql\n\n((?:   .*\n|\n)+)")
STATEMENTS = [
    textwrap.dedent(block).strip().rstrip(";")
    for page in sorted(DOCS.glob("*.rst"))
    for block in BLOCK.findall(page.read_text(encoding="utf-8"))
    if not textwrap.dedent(block).startswith("CREATE")  # accounts and databases of servers
]
DRIFT = [statement for statement in STATEMENTS if "<>" in statement]


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """A pool with a volume that its report includes and a volume in flight."""
    engine = database.create_engine(database_url)
    ledger_schema.create(engine)
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, engine=engine).started()
    world.create(3)
    world.settle()
    world.create(2)
    yield world
    engine.dispose()


def query(world: World, statement: str) -> list[Any]:
    with world.engine.connect() as connection:
        return list(connection.execute(sa.text(statement)))


def test_all_documented_statements_run(world: World) -> None:
    assert STATEMENTS
    for statement in STATEMENTS:
        query(world, statement)


def test_the_documented_drift_queries_find_only_drift(world: World) -> None:
    assert len(DRIFT) == 2
    assert [query(world, statement) for statement in DRIFT] == [[], []]
    with world.engine.begin() as connection:
        connection.execute(sa.text("UPDATE pools SET allocated_capacity_gb = allocated_capacity_gb + 1"))
    assert [len(query(world, statement)) for statement in DRIFT] == [1, 1]
