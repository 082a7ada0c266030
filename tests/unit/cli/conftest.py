# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

from collections.abc import Callable
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.cli.simulation import scheduler_query
from tonnage.rpc.messages import SimulationResult


class Asked:
    """The questions to schedulers, which answer with ``outlooks`` or ``error``."""

    def __init__(self) -> None:
        self.questions: list[dict[str, Any]] = []
        self.outlooks: list[SimulationResult] = []
        self.error: errors.TonnageError | None = None

    def query(
        self, conf: object, question: dict[str, Any], target: scheduler_query.QueryTarget
    ) -> list[SimulationResult]:
        """Answer a question."""
        self.questions.append(question)
        if self.error is not None:
            raise self.error
        return self.outlooks


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Schedulers that can be asked."""
    asked = Asked()
    monkeypatch.setattr(scheduler_query, "query", asked.query)
    return asked


@pytest.fixture
def use_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function that makes standard output a terminal of the kind xterm, with colours."""

    def use_terminal() -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    return use_terminal
