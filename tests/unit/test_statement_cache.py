# SPDX-License-Identifier: Apache-2.0
"""Engines of a test process share their compiled statements."""

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class Counted(FunctionElement[int]):
    """An expression that counts how often it is compiled."""

    inherit_cache = True
    type = sa.Integer()
    compilations = 0


@compiles(Counted)
def _compile(element: Counted, compiler: SQLCompiler, **options: object) -> str:
    Counted.compilations += 1
    return "7"


@pytest.fixture
def engine() -> Iterator[Callable[..., sa.Engine]]:
    """A function that makes engines."""
    engines: list[sa.Engine] = []

    def make(**options: str) -> sa.Engine:
        engines.append(sa.create_engine("sqlite://", **options))
        return engines[-1]

    yield make
    for made in engines:
        made.dispose()


def test_a_statement_is_compiled_once_for_all_engines_of_a_kind(engine: Callable[..., sa.Engine]) -> None:
    Counted.compilations = 0
    for options in ({}, {}, {"paramstyle": "named"}, {"paramstyle": "named"}):
        with engine(**options).connect() as connection:
            statement = sa.select(Counted()).where(sa.literal(5) == 5)
            assert connection.execute(statement).scalar() == 7
    assert Counted.compilations == 2
