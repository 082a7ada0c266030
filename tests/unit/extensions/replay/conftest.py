# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: those of schedulers, and a scheduler with a decision log."""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.unit.extensions.replay.recorded import Recorded, thick
from tests.unit.scheduler.conftest import *  # noqa: F403


@pytest.fixture
def recorded(tmp_path: pathlib.Path) -> Iterator[Callable[..., Recorded]]:
    """Return a function that makes a scheduler with a log, with thick pools of the given GiB."""
    worlds: list[Recorded] = []

    def record(**free: int) -> Recorded:
        worlds.append(Recorded(tmp_path / "decisions.jsonl", thick(**free)))
        return worlds[-1]

    yield record
    for world in worlds:
        world.file.close()
