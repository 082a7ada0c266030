# SPDX-License-Identifier: Apache-2.0
"""A ledger with one backend and two pools, and the commands that show it."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.servers import ledger_schema
from tests.unit.cli import command_runs
from tests.unit.scheduler.world import StoragePool, World
from tonnage.capacity import units
from tonnage.cli import tonnage
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options


class Ledger:
    """A scheduler with one backend and two pools, and the commands on its ledger."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.engine = database.create_engine(url)
        ledger_schema.create(self.engine)
        figures = {
            "p0": StoragePool(20, 2.0, thin=True, thick=False),
            "p1": StoragePool(10, 1.0, thin=False, thick=True),
        }
        self.world = World(figures, engine=self.engine).started()
        options = {option.dest: option.default for option in database_options.OPTIONS}
        own_database = SimpleNamespace(**{**options, "connection": url})
        self.conf: Any = SimpleNamespace(database=own_database, service_down_time=60, enabled_extensions=[])
        self.program = tonnage.program()
        self._capsys = capsys

    def run(self, line: str, status: int = 0) -> str:
        """Return the output of a command, which has to end with that exit status."""
        assert command_runs.run(self.program, line.split(), self.conf) == status
        return self._capsys.readouterr().out

    def write(self, step: Any, *given: Any) -> None:
        """Run a step in a transaction of the ledger."""
        database.Database(self.engine).run(step, *given)

    def json(self, line: str, status: int = 0) -> Any:
        return json.loads(self.run(f"{line} -f json", status))


def gib(number: int) -> int:
    return number * units.GIB
