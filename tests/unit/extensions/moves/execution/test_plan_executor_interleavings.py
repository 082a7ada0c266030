# SPDX-License-Identifier: Apache-2.0
"""Plans under random interleavings (see :mod:`tests.unit.extensions.moves.execution.plan_play`)."""

import pytest

from tests.unit.extensions.moves.execution.plan_play import PlanPlay


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_any_interleaving_of_plans(seed: int) -> None:
    PlanPlay(seed).go(80)


@pytest.mark.heavy
@pytest.mark.parametrize("block", range(20))
def test_many_interleavings_of_plans(block: int) -> None:
    for seed in range(1000 + block * 10, 1010 + block * 10):
        PlanPlay(seed).go(160)
