# SPDX-License-Identifier: Apache-2.0
"""The board for Grafana is the one that ``tools/grafana_board.py`` writes."""

import importlib
import json
import pathlib
import re

import pytest

from tests import suites

ROOT = pathlib.Path(__file__).parents[3]
BOARD = ROOT / "etc" / "grafana" / "tonnage.json"


def test_the_board_is_what_its_code_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    try:
        code = importlib.import_module("grafana_board")
    except ModuleNotFoundError as error:
        suites.cannot_run("Grafana", f"no module {error.name}; run `make install` and `make test`")
    assert BOARD.read_text(encoding="utf-8") == code.text(), "run `make board`"


def test_no_panel_shows_physical_and_promised_capacity_as_one() -> None:
    panels = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    shown = [panel for panel in panels if panel["type"] not in {"row", "table"}]
    assert shown
    for panel in shown:
        queries = " ".join(target["expr"] for target in panel["targets"])
        physical = re.search(r"physical_|total_bytes|free_bytes", queries)
        assert not (physical and re.search(r"promised|provisioned|allocated|virtual", queries)), panel["title"]


def test_panels_have_titles_and_numbers_of_their_own() -> None:
    panels = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    assert all(panel["title"] for panel in panels)
