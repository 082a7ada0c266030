# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

import pathlib
from typing import Any

import pytest

from tests.unit.cli.overviews.overview_ledger import Ledger


@pytest.fixture
def ledger(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Any:
    made = Ledger(f"sqlite:///{tmp_path}/tonnage.sqlite", capsys)
    yield made
    made.engine.dispose()
