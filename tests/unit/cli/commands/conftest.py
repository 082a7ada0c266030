# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.unit.cli.overviews.overview_ledger import Ledger
from tonnage.cli import manage


@pytest.fixture
def ledger(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Ledger]:
    """A ledger with one backend and two pools, and the commands of ``tonnage-manage`` on it."""
    ledger = Ledger(f"sqlite:///{tmp_path}/tonnage.sqlite", capsys)
    ledger.program = manage.program()
    yield ledger
    ledger.engine.dispose()
