# SPDX-License-Identifier: Apache-2.0
"""The goal of a plan on a command line."""

import argparse
from typing import Any

import pytest

from tonnage.extensions.moves import goal_arguments


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
        ("shuffle h@b#p", "shuffle", {"pool": "h@b#p"}),
    ],
)
def test_the_subject_becomes_the_argument_of_the_goal(line: str, goal: str, arguments: dict[str, Any]) -> None:
    parser = argparse.ArgumentParser()
    goal_arguments.add(parser)
    assert goal_arguments.read(parser, parser.parse_args(line.split())) == {"goal": goal, "arguments": arguments}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("empty", "the goal empty takes one SUBJECT, not 0"),
        ("shuffle", "the goal shuffle takes one SUBJECT, not 0; the goals of Tonnage are empty, relieve, balance, fit"),
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


def test_a_goal_that_is_not_of_tonnage_takes_any_option() -> None:
    parser = argparse.ArgumentParser()
    goal_arguments.add(parser)
    words = ["shuffle", "h@b#p", "--below", "5", "--count", "2", "--zone", "nova"]
    goal = goal_arguments.read(parser, parser.parse_args(words))
    assert goal["arguments"] == {"pool": "h@b#p", "below": 5.0, "count": 2, "zone": "nova"}
