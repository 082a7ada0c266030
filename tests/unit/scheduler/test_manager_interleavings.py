# SPDX-License-Identifier: Apache-2.0
"""The ledger under random interleavings (see :mod:`tests.unit.scheduler.model`)."""

import pytest

from tests.unit.scheduler.model.play import Play


@pytest.mark.parametrize("seed", range(4))
def test_any_interleaving(seed: int) -> None:
    Play(seed).go(100)


@pytest.mark.heavy
@pytest.mark.parametrize("block", range(20))
def test_many_interleavings(block: int) -> None:
    for seed in range(1000 + block * 25, 1025 + block * 25):
        Play(seed).go(250)
