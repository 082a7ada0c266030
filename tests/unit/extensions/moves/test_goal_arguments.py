# SPDX-License-Identifier: Apache-2.0
"""The goal of a plan on a command line."""

import argparse
import pathlib
import re
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from tonnage.extensions.moves import goal_arguments, plan_bodies
from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.goals.arguments import Texts, Whole
from tonnage.extensions.moves.goals.goal import Goal


@pytest.mark.parametrize(
    ("line", "goal", "arguments"),
    [
        ("empty h@b", "empty", {"target": "h@b"}),
        (
            "relieve h@b#p --below 80 --bound promised",
            "relieve",
            {"pool": "h@b#p", "below": 80.0, "bound": "promised"},
        ),
        ("balance", "balance", {}),
        ("balance h@b#p h@c#p --points 5", "balance", {"pools": ["h@b#p", "h@c#p"], "points": 5.0}),
        ("fit 12 --type gold --count 2", "fit", {"size": 12, "volume_type": "gold", "count": 2}),
        ("empty h@b --keep-forecast", "empty", {"target": "h@b", "keep_forecast": True}),
    ],
)
def test_the_subject_becomes_the_argument_of_the_goal(line: str, goal: str, arguments: dict[str, Any]) -> None:
    parser = argparse.ArgumentParser()
    goal_arguments.add(parser)
    assert goal_arguments.read(parser, parser.parse_args(line.split())) == {"goal": goal, "arguments": arguments}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("empty", "the goal empty takes a SUBJECT: a pool or a backend"),
        ("empty h@b h@c", "the goal empty takes one SUBJECT, a pool or a backend, and not 2: h@b h@c"),
        ("shuffle h@b#p", "'shuffle' is no goal: the goals are balance, empty, fit, relieve"),
        ("emtpy h@b#p", "'emtpy' is no goal: did you mean empty? The goals are balance, empty, fit, relieve"),
        ("", "the following arguments are required: GOAL"),
        ("fit many", "argument SUBJECT: 'many': expected a whole number from 1 to 2147483647"),
        ("relieve h@b#p --below 101", "argument --below: '101': expected a number from 0 to 100"),
        ("relieve h@b#p --below 5 --bound none", "argument --bound: 'none': expected physical or promised"),
        ("relieve h@b#p", "the goal relieve takes --below PERCENT"),
        ("empty h@b --below 50", "the goal empty takes no --below"),
        ("fit 4 --points 5", "the goal fit takes no --points"),
        ("relieve h@b#p --below 50 --count 2", "the goal relieve takes no --count"),
    ],
)
def test_wrong_arguments_are_usage_errors(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    goal_arguments.add(parser)
    with pytest.raises(SystemExit, match=r"^2$"):
        goal_arguments.read(parser, parser.parse_args(line.split()))
    assert capsys.readouterr().err.endswith(f"error: {message}\n")


def test_a_misspelt_command_is_told_apart_from_a_goal(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    goal_arguments.add(parser)
    with pytest.raises(SystemExit, match=r"^2$"):
        goal_arguments.read(parser, parser.parse_args(["aply", "fit", "10"]), ["plan apply", "plan list"])
    assert capsys.readouterr().err.endswith(
        "error: 'aply' is no goal: did you mean plan apply? The goals are balance, empty, fit, relieve; the commands "
        "are plan apply, plan list\n"
    )


class _Shuffle(Goal):
    name, summary = "shuffle", "move volumes about"
    arguments = (
        Texts(name="pools", summary="these pools"),
        Texts(name="volume_types", summary="of these types", option="type"),
        Whole(name="most_moves", summary="so many at most"),
    )


def test_a_goal_of_another_package_declares_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    find = goal_loader.find
    monkeypatch.setattr(goal_loader, "names", lambda: ["fit", "shuffle"])
    monkeypatch.setattr(goal_loader, "find", lambda name: _Shuffle if name == "shuffle" else find(name))
    parser = argparse.ArgumentParser()
    goal_arguments.add(parser)
    words = ["shuffle", "h@b#p", "h@c#p", "--type", "gold", "--most-moves", "2"]
    assert goal_arguments.read(parser, parser.parse_args(words)) == {
        "goal": "shuffle",
        "arguments": {"pools": ["h@b#p", "h@c#p"], "volume_types": ["gold"], "most_moves": 2},
    }
    # An option that two goals share takes the values of the goal.
    fit = goal_arguments.read(parser, parser.parse_args(["fit", "4", "--type", "gold"]))
    assert fit["arguments"] == {"size": 4, "volume_type": "gold"}
    assert "fit: the volume type, by name or id; shuffle: of these types" in " ".join(parser.format_help().split())


def test_the_page_about_moves_has_the_arguments_of_each_goal() -> None:
    page = (pathlib.Path(__file__).parents[4] / "docs" / "moves.rst").read_text()
    rows = dict(re.findall(r"^``([a-z]+)``  +(``.*(?:\n  .*)*)$", page, re.MULTILINE))
    for name in goal_loader.names():
        names = re.findall(r"``([a-z_]+)``", rows[name].partition(":")[0] if name == "empty" else rows[name])
        assert set(names) == {argument.name for argument in goal_loader.find(name).arguments}, name


def test_the_api_describes_the_arguments_of_each_goal() -> None:
    schema = msgspec.json.schema(plan_bodies.NewPlan, schema_hook=lambda kind: {"title": kind.__name__})
    text = schema["$defs"]["NewPlan"]["properties"]["arguments"]["description"]
    assert text == (
        "balance takes pools, volume_type, zone, bound, points; empty takes target; "
        "fit takes size, volume_type, zone, count; "
        "relieve takes pool, below, bound"
    )


def test_the_command_loads_no_part_that_plans() -> None:
    """Its help waits for no more than the declarations."""
    script = (
        "import argparse, sys; from tonnage.extensions.moves import goal_arguments, plan_commands; "
        "goal_arguments.add(argparse.ArgumentParser()); "
        "print(sorted({'sqlalchemy', 'msgspec', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
