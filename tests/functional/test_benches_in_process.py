# SPDX-License-Identifier: Apache-2.0
"""Tiny runs of the benchmarks of decisions and reports. Their figures have no meaning here."""

import importlib
import json
import pathlib
from typing import Any

import pytest

BENCH = pathlib.Path(__file__).parents[2] / "bench"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("decisions", {"decision_ms", "unchanged_ms", "pipeline_ms", "pipeline_of_64_ms", "rpc_ms"}),
        ("ingest", {"changed_ms", "after_ms", "whole_ms", "whole_unchanged_ms", "get_pools_ms"}),
    ],
)
def test_the_benchmark_runs(
    name: str, keys: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    bench = importlib.import_module(name)
    assert bench.main(["--pools", "20", "40", "--seconds", "0.1", "--whole-up-to", "20", "--json"]) == 0
    small, large = map(json.loads, capsys.readouterr().out.splitlines())
    assert (small["pools"], large["pools"]) == (20, 40)
    for key in keys:
        assert small[key]["cpu_median"] > 0
    assert "peer" not in small
    for figures in (small, large):
        figures["peer"] = {"unchanged_ms": figures.get("changed_ms"), **figures}
    shown: Any = bench.show([small, large])
    assert "40" in shown


def test_the_joint_fit_benchmark_finds_fewer_nodes_than_single_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    bench = importlib.import_module("joint_fit")
    assert bench.main(["--nodes", "40", "--calls", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for shape in ("one pool", "several pools"):
        assert 0 < found[shape]["nodes_joint"] < found[shape]["nodes_alone"] < 40
        assert found[shape]["joint_ms"]["cpu"] > 0
    assert bench.main(["--nodes", "40", "--calls", "3"]) == 0
    assert "40 nodes, 4 classes" in capsys.readouterr().out


def test_plans_of_moves_copy_little_more_than_the_optimum(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    bench = importlib.import_module("moves")
    assert bench.main(["--clouds", "3", "--pools", "4", "--volumes", "4", "--large", "20x5", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    for row in figures["goals"]:
        assert (row["clouds"], row["missed"]) == (3, [])
        assert row["over_worst_percent"] <= 25
    assert sum(row["optimal"] for row in figures["goals"]) > 3
    assert set(figures["large"]["goals"]) == set(bench.GOALS)
    assert all(row["processor_s"] > 0 for row in figures["large"]["goals"].values())
    rules = {(row["task"], row["rule"]): row for row in figures["rules"]}
    assert {task for task, _ in rules} == {"empty", "relieve"}
    assert {row["clouds"] for row in rules.values()} == {3}
    for task in ("empty", "relieve"):
        assert rules[task, "Tonnage"]["passed"] == rules[task, "smallest first"]["passed"] == 0
    assert rules["empty", "Tonnage"]["done"] >= rules["empty", "Watcher"]["done"]
    assert bench.main(["--clouds", "1", "--pools", "3", "--volumes", "3"]) == 0
    assert capsys.readouterr().out.startswith("goal")


def test_an_environment_without_cinder_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    bench = importlib.import_module("decisions")
    assert bench.main(["--pools", "20", "--peer", "--cinder-python", "/nowhere/python"]) == 2
    assert "decisions: --cinder-python: /nowhere/python is no Python" in capsys.readouterr().err
