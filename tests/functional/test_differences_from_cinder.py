# SPDX-License-Identifier: Apache-2.0
"""Tonnage decides as Cinder does but where ``docs/differences-from-cinder.rst`` says otherwise."""

import importlib
import json
import logging
import pathlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests import suites

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "differences-from-cinder.rst"

#: What real Cinder said to some cases of each filter and each row: made by ``bench/differential.py --record``.
RECORDED = pathlib.Path(__file__).with_name("cinder_verdicts.jsonl")

#: How many cases the long run has; half of them are about the capacity filter.
CASES = 42_000


@pytest.fixture
def differential(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The bench, which is no package; what is wrong with random functions is not logged."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    logging.disable()
    yield importlib.import_module("differential")
    logging.disable(logging.NOTSET)


def test_every_recorded_difference_has_a_row_and_every_row_a_difference(differential: ModuleType) -> None:
    tally = differential.Tally()
    for case, theirs in differential.recorded(RECORDED):
        tally.add(case, theirs)
    assert tally.asked.total() > 200
    assert tally.unexplained == []
    assert tally.unused == []


def test_a_verdict_that_turns_round_is_noticed(differential: ModuleType) -> None:
    """No row explains whatever one likes: of all that agree, hardly one may be told to differ."""
    tally, turned = differential.Tally(), differential.Tally()
    agreed = 0
    for case, theirs in differential.recorded(RECORDED):
        before = tally.differences
        tally.add(case, theirs)
        if tally.differences == before and isinstance(theirs, list):
            agreed += len(theirs)
            turned.add(case, [not verdict for verdict in theirs])
    assert agreed > 200
    assert len(turned.unexplained) > 0.9 * agreed


def test_the_rows_are_those_of_the_documentation(differential: ModuleType) -> None:
    titles = re.findall(r"^   \* - \*\*(.+?)\*\*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(titles) == sorted(differential.rows.NAMES)


@pytest.mark.heavy
def test_every_difference_from_real_cinder_has_a_row_and_every_row_a_difference(
    differential: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["differential", "--json", "--cases", str(CASES), "--seed", "2026"])
    status = differential.main()
    output, said = capsys.readouterr()
    if status == 2:
        suites.cannot_run("Cinder", said.strip().rpartition("\n")[2])
    found = json.loads(output)
    assert (found["unexplained"], found["unused_rows"]) == (0, []), said
    assert found["cases"] == CASES
    assert status == 0
