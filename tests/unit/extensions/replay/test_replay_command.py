# SPDX-License-Identifier: Apache-2.0
"""The arguments of ``tonnage replay``."""

import pathlib
from collections.abc import Callable

import pytest

from tests.unit.cli import command_runs
from tests.unit.extensions import alone
from tests.unit.extensions.replay.recorded import Recorded
from tonnage.cli import tonnage


@pytest.mark.parametrize(
    ("arguments", "message"), [("", "FILE"), ("log --rows -1", "--rows"), ("log --rows many", "--rows")]
)
def test_a_wrong_command_line_has_status_2(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tonnage.program().parse(["replay", *arguments.split()])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_arguments_reach_the_replay(
    tmp_path: pathlib.Path, recorded: Callable[..., Recorded], capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler = recorded(a=10)
    scheduler.world.create(3)
    conf = alone.conf_of(tmp_path, "replay")
    arguments = ["replay", str(scheduler.path), "--all", "--rows", "0"]
    assert command_runs.run(tonnage.program(), arguments, conf) == 0
    assert capsys.readouterr().out.endswith("0 of 1 decision(s) would differ\n")
