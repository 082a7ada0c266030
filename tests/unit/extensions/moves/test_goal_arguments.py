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
