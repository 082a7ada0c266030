#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the hottest SQL statements: the cost of each one as Tonnage executes it, and in the driver alone.

A scheduler with a real ledger lives through volumes one by one: create, outcome, report, delete. The statements that it
executes most often are then executed again: as Tonnage does, which has prepared nearly all of them, by SQLAlchemy's
``Connection.execute``, and by the cursor of the database's driver with the same text and parameters. Each fetches all
rows. A savepoint, which is not measured, takes each execution back.
INSERTs are left out, because a row cannot be inserted twice.
Run it with the Python that Tonnage is installed in::

    python bench/statements.py
    python bench/statements.py --databases sqlite --statements 20

The figures are processor time of the thread in microseconds, medians of all executions; the ways take turns. Exit
status: 0; 1 after an error.
"""

import argparse
import contextlib
import gc
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import command
import comparison_runner
import sqlalchemy as sa
import throughput_machine as machine

from tests.unit.scheduler.world import StoragePool, World
from tonnage.ledger.db import database
from tonnage.ledger.db.prepared_statements import Prepared

#: The database that needs no server.
_SQLITE = "sqlite"

#: Lives before the statements are counted: their first executions compile them.
_WARM_UP = 3

#: Most characters of a statement in the table.
_WIDTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The cost of one statement in us of processor time, and how often the life of a volume executes it."""

    database: str
    statement: str
    times_a_life: float
    tonnage_us: float
    sqlalchemy_us: float
    driver_us: float

    @property
    def ratio(self) -> float:
        """The cost in Tonnage to the cost in the driver."""
        return self.tonnage_us / self.driver_us


@dataclass(slots=True)
class _Execution:
    """The last execution of a statement: the arguments of SQLAlchemy, and those of the driver."""

    statement: Any
    parameters: Any
    driver_parameters: Any
    is_select: bool

    @property
    def first_parameters(self) -> Any:
        """Return the parameters as a mapping: SQLAlchemy takes a list, too, where rows are changed."""
        return self.parameters[0] if isinstance(self.parameters, list) else self.parameters


class _Recorder:
    """Records the statements of an engine, without INSERTs and those with many rows of parameters."""

    def __init__(self, engine: sa.Engine) -> None:
        self.numbers: Counter[str] = Counter()
        self.executions: dict[str, _Execution] = {}
        self._parameters: Any = None
        sa.event.listen(engine, "before_execute", self._begin)
        sa.event.listen(engine, "before_cursor_execute", self._execute)

    def _begin(self, connection: Any, statement: Any, several: Any, parameters: Any, options: Any) -> None:
        self._parameters = several or parameters

    def _execute(self, connection: Any, cursor: Any, text: str, parameters: Any, context: Any, many: bool) -> None:
        if many or context is None or context.compiled is None or context.isinsert:
            return
        self.numbers[text] += 1
        self.executions[text] = _Execution(
            context.invoked_statement,
            self._parameters,
            parameters,
            isinstance(context.invoked_statement, sa.SelectBase),
        )


class Bench:
    """The measurements on each database."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments

    def run(self) -> Iterator[Figures]:
        """Measure the hottest statements of each database."""
        for name in self._arguments.databases:
            with contextlib.ExitStack() as stack:
                command.progress(f"starting {name}")
                if name == _SQLITE:
                    url = f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory(prefix='tonnage-bench-'))}/db"
                else:
                    server = stack.enter_context(machine.start(machine.DATABASES[name]))
                    url = stack.enter_context(server.database())
                engine = database.create_engine(url)
                stack.callback(engine.dispose)
                yield from self._measured(name, engine)

    def _measured(self, name: str, engine: sa.Engine) -> Iterator[Figures]:
        lives = self._arguments.lives
        pools = {f"pool{number}": StoragePool(1000, 2.0, thin=True, thick=False) for number in range(10)}
        world = World(pools, engine=engine).started()
        for _ in range(_WARM_UP):
            _live(world)
        recorder = _Recorder(engine)
        for _ in range(lives):
            _live(world)
        sa.event.remove(engine, "before_execute", recorder._begin)
        sa.event.remove(engine, "before_cursor_execute", recorder._execute)
        for text, number in recorder.numbers.most_common(self._arguments.statements):
            costs = self._costs(engine, text, recorder.executions[text])
            yield Figures(
                database=name, statement=_in_short(text), times_a_life=round(number / lives, 2), **dict(costs)
            )

    def _costs(self, engine: sa.Engine, text: str, execution: _Execution) -> Iterator[tuple[str, float]]:
        """Return the median costs of each way."""
        all_prepared = (thing for thing in gc.get_objects() if isinstance(thing, Prepared))
        prepared = next((prepared for prepared in all_prepared if prepared.statement is execution.statement), None)

        def by_tonnage() -> None:
            if prepared is None:
                by_sqlalchemy()
            elif execution.is_select:
                prepared.rows(connection, execution.first_parameters)
            else:
                prepared.change(connection, [execution.first_parameters])

        def by_sqlalchemy() -> None:
            result = connection.execute(execution.statement, execution.parameters)
            if result.returns_rows:
                result.fetchall()

        def by_driver() -> None:
            cursor = raw.cursor()
            cursor.execute(text, execution.driver_parameters)
            if cursor.description is not None:
                cursor.fetchall()
            cursor.close()

        with engine.connect() as connection, connection.begin() as transaction:
            raw: Any = connection.connection.dbapi_connection
            ways = {"tonnage_us": by_tonnage, "sqlalchemy_us": by_sqlalchemy, "driver_us": by_driver}
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(self._arguments.executions):
                for name, execute in ways.items():
                    seconds[name].append(_timed(connection, execute))
            transaction.rollback()
        for name, values in seconds.items():
            yield name, round(statistics.median(values) * 1e6, 1)


def _live(world: World) -> None:
    """Have a volume created and deleted."""
    world.delete(world.made(1))
    world.settle()


def _timed(connection: sa.Connection, execute: Callable[[], None]) -> float:
    """Return the processor seconds of an execution, and take it back."""
    savepoint = connection.begin_nested()
    began = time.thread_time()
    execute()
    seconds = time.thread_time() - began
    savepoint.rollback()
    return seconds


def _in_short(text: str) -> str:
    """Return the first words of a statement and the tables that it names."""
    words = text.split()
    tables = [table for keyword, table in itertools.pairwise(words) if keyword in ("FROM", "UPDATE", "INTO", "JOIN")]
    start = " ".join([words[0], ", ".join(dict.fromkeys(table.strip("(),") for table in tables))])
    condition = text.partition("WHERE")[2].split()
    return " ".join([start, *(["WHERE", *condition] if condition else [])])[:_WIDTH]


def table(figures: Sequence[Figures]) -> str:
    """Return the figures as a table, with the ratio of the sums for each database."""
    rows: list[Sequence[object]] = [
        (
            *(line.database, line.statement, line.times_a_life),
            *(line.tonnage_us, line.sqlalchemy_us, line.driver_us, line.ratio),
        )
        for line in figures
    ]
    for name in dict.fromkeys(line.database for line in figures):
        lines = [line for line in figures if line.database == name]
        times = sum(line.times_a_life for line in lines)
        tonnage, sqlalchemy, driver = (
            sum(getattr(line, key) * line.times_a_life for line in lines)
            for key in ("tonnage_us", "sqlalchemy_us", "driver_us")
        )
        rows.append((name, "all of these, a life", times, tonnage, sqlalchemy, driver, tonnage / driver))
    header = ["database", "statement", "times a life", "Tonnage us", "SQLAlchemy us", "driver us", "ratio"]
    return comparison_runner.table(header, rows)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    names = [_SQLITE, *machine.DATABASES]
    parser.add_argument(
        "--databases", type=command.listed(names), default=names, help=f"list of {','.join(names)} (default: all)"
    )
    parser.add_argument("--statements", type=int, default=10, help="number of statements (%(default)s)")
    parser.add_argument("--lives", type=int, default=20, help="number of volumes whose statements are counted")
    parser.add_argument("--executions", type=int, default=500, help="number of executions of each statement, each way")
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    arguments = parse(words)
    figures, good = command.collect(
        "statements",
        Bench(arguments).run(),
        lambda figure: f"{figure.database}: {figure.statement}: {figure.ratio:.1f}",
    )
    if figures:
        print(json.dumps([asdict(figure) for figure in figures]) if arguments.json else table(figures))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
