# SPDX-License-Identifier: Apache-2.0
"""``tonnage replay`` on a log that a scheduler has written: its output, its statuses and its errors."""

import argparse
import io
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.extensions import alone
from tests.unit.extensions.replay.recorded import Recorded
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.cli import setup
from tonnage.extensions.replay import log_replay

SAME = "scheduler_default_filters = CapacityFilter\nscheduler_default_weighers = CapacityWeigher\n"
#: The fullest pool comes first.
OTHER = f"{SAME}capacity_weight_multiplier = -1.0\n"


@pytest.fixture
def log(recorded: Callable[..., Recorded]) -> pathlib.Path:
    """A log of two volumes of 3 GiB, which went to different pools, and of one that was refused."""
    scheduler = recorded(a=10, b=8)
    scheduler.world.create(3, 3)
    scheduler.world.create(9)
    return scheduler.path


def run(folder: pathlib.Path, text: str, *files: object, **arguments: Any) -> int:
    usual = {"files": [str(file) for file in files], "rows": 100, "json": False, "all": False}
    return log_replay.replay(alone.conf_of(folder, "replay", text), argparse.Namespace(**usual | arguments))


def test_the_same_rules_decide_the_same(
    tmp_path: pathlib.Path, log: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, SAME, log) == 0
    assert capsys.readouterr().out == "Nothing differs\n0 of 3 decision(s) would differ\n"


def test_other_rules_have_a_status_of_their_own(
    tmp_path: pathlib.Path, log: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, OTHER, log) == 3
    printed = capsys.readouterr().out
    assert f"{BACKEND}#a" in printed
    assert printed.endswith("2 of 3 decision(s) would differ\n")
    assert run(tmp_path, OTHER, log, rows=1) == 3
    assert "These are the first 1: --rows 0 shows all" in capsys.readouterr().out


def test_programs_get_all_decisions_as_data(
    tmp_path: pathlib.Path, log: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, SAME, log, json=True, all=True, rows=1) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["decisions"], shown["differ"]) == (3, 0)
    assert [row["replayed"]["pools"] for row in shown["replayed"]] == [[f"{BACKEND}#a"], [f"{BACKEND}#b"], []]
    assert shown["replayed"][2]["recorded"] == {"pools": [], "refusal": shown["replayed"][2]["replayed"]["refusal"]}


def test_a_broken_line_is_told_and_the_rest_is_left_out(
    tmp_path: pathlib.Path, log: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:-1], lines[-1][:9]]))
    run(tmp_path, SAME, log)
    assert f"tonnage: line {len(lines)} cannot be read; the lines after it are left out" in capsys.readouterr().err


def test_a_log_can_be_read_from_standard_input(
    tmp_path: pathlib.Path, log: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log.read_bytes())))
    assert run(tmp_path, SAME, "-") == 0


@pytest.mark.parametrize(("content", "message"), [(None, "No such file"), (b"a\nb\n" * 20, "is no decision log")])
def test_another_file_is_a_wrong_command_line(tmp_path: pathlib.Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(setup.UsageError, match=message) as raised:
        run(tmp_path, SAME, file)
    assert str(file) in raised.value.message


def test_an_empty_log_and_one_without_its_beginning_have_nothing_to_replay(
    tmp_path: pathlib.Path, log: pathlib.Path
) -> None:
    (tmp_path / "empty").touch()
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[-1:]))
    for file in (tmp_path / "empty", log):
        with pytest.raises(errors.InvalidInput, match="a log has to be read from its beginning"):
            run(tmp_path, SAME, file)
