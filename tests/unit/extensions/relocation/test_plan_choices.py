# SPDX-License-Identifier: Apache-2.0
"""The choices for the moves of a plan."""

from tonnage.extensions.relocation import plan_choices
from tonnage.extensions.relocation.plan_choices import Choices


def test_choices_are_read_from_the_row_of_a_plan() -> None:
    choices = Choices(cloud="http://c", attached=True, retype={"gold": "silver"}, lock=False)
    assert plan_choices.read({**choices.as_options(), "later": 1}) == choices
