# SPDX-License-Identifier: Apache-2.0
"""Tonnage decides like Cinder, except for the differences in ``docs/differences-from-cinder.rst``."""

import importlib
import json
import logging
import pathlib
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests import suites

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "differences-from-cinder.rst"

#: Verdicts of real Cinder for some cases of each filter and each row, made by ``bench/differential.py --record``.
RECORDED = pathlib.Path(__file__).with_name("cinder_verdicts.jsonl")

#: The number of cases of the heavy test. Half of them test the capacity filter.
CASES = 42_000


@pytest.fixture
def differential(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the bench, which is no package. Errors of random functions are not logged."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    logging.disable()
    yield importlib.import_module("differential")
    logging.disable(logging.NOTSET)


def test_recorded_differences_and_documented_rows_match(differential: ModuleType) -> None:
    tally = differential.Tally()
    for case, theirs in differential.recorded(RECORDED):
        tally.add(case, theirs)
    assert tally.asked.total() > 200
    assert tally.unexplained == []
    assert tally.unused == []


def test_an_inverted_verdict_is_not_explained_by_a_row(differential: ModuleType) -> None:
    """The rows must be specific: they may explain hardly any inverted verdict of cases that agree."""
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


def test_the_rows_equal_those_of_the_documentation(differential: ModuleType) -> None:
    titles = re.findall(r"^   \* - \*\*(.+?)\*\*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(titles) == sorted(differential.rows.NAMES)


@pytest.mark.heavy
def test_differences_from_real_cinder_and_documented_rows_match(
    differential: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    status = differential.main(["--json", "--cases", str(CASES), "--seed", "2026"])
    output, said = capsys.readouterr()
    if status == 2:
        suites.cannot_run("Cinder", said.strip().rpartition("\n")[2])
    found = json.loads(output)
    assert (found["unexplained"], found["unused_rows"]) == (0, []), said
    assert found["cases"] == CASES
    assert status == 0
