# SPDX-License-Identifier: Apache-2.0
"""Figures in objects that are lowered by a byte."""

import pytest

from tonnage.extensions.kubernetes.cluster import lowered_figures
from tonnage.extensions.kubernetes.cluster.lowered_figures import ANNOTATION, LoweredFigure


def test_a_lowered_figure_is_seen_until_another_one_is_written() -> None:
    before = LoweredFigure(version=7, capacity=100)
    assert before.lowered == 99
    assert lowered_figures.find(before.annotations, 99) == before
    for capacity in (100, 98, None):
        assert lowered_figures.find(before.annotations, capacity) is None


@pytest.mark.parametrize("value", ["", "7", "7 ", " 99", "7 -1", "7 99 1", "a 99", "7 b"])
def test_annotations_of_others_are_no_lowered_figures(value: str) -> None:
    assert lowered_figures.find({ANNOTATION: value}, 99) is None
    assert lowered_figures.find(None, 99) is None
