# SPDX-License-Identifier: Apache-2.0
"""The goals as plug-ins, and the shares of bounds."""

import pytest

from tests.unit.extensions.moves.clouds import Cloud
from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.goals.balance import Balance
from tonnage.extensions.moves.goals.relieve import Relieve


@pytest.mark.parametrize("name", goal_loader.names())
def test_a_goal_declares_its_name_and_its_arguments(name: str) -> None:
    goal = goal_loader.find(name)
    assert (goal.name, bool(goal.summary)) == (name, True)
    names = [argument.name for argument in goal.arguments]
    assert len(set(names)) == len(names) == len({argument.option_name for argument in goal.arguments})
    assert all(argument.takes(argument.default) for argument in goal.arguments if argument.default is not None)


def test_the_share_is_that_of_the_bound() -> None:
    model = Cloud().add("a", 100, [40, 20], thin=True, ratio=2.0, written=0.5).model()
    balance = Balance({"pools": [], "volume_type": "", "zone": "", "bound": "promised", "points": 10})
    assert balance.used_and_limit(model, "h@a#p") == (60.0, 200.0)
    relieve = Relieve({"pool": "h@a#p", "below": 10, "bound": "physical"})
    assert relieve.used_and_limit(model, "h@a#p") == (30.0, 100.0)
