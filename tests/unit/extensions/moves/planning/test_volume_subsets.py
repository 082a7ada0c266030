# SPDX-License-Identifier: Apache-2.0
"""The choice of the volumes whose moves free an amount."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.extensions.moves.planning import volume_subsets
from tonnage.extensions.moves.planning.volume_subsets import Candidate, smallest


def plain(*sizes: int) -> list[Candidate]:
    return [Candidate(size, size) for size in sizes]


def test_the_fewest_gib_are_copied_then_the_fewest_volumes() -> None:
    assert smallest(plain(10, 7, 4), 11) == [1, 2]
    assert smallest(plain(6, 6, 12, 5), 12) == [2]


def test_an_amount_that_is_free_already_needs_no_volume() -> None:
    assert smallest(plain(5), 0) == []
    assert smallest(plain(5), -3.0) == []


def test_too_few_gib_give_no_choice() -> None:
    assert smallest(plain(5, 5), 11) is None
    assert smallest([], 1) is None
    assert smallest([Candidate(50, 0)], 1) is None


def test_a_part_of_a_gib_is_rounded_up() -> None:
    assert smallest(plain(3, 4), 3.01) == [1]


_SIZES = st.one_of(
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
    st.lists(st.sampled_from([2, 3, 7]), min_size=1, max_size=10),
)


@given(_SIZES, st.integers(1, 100))
def test_no_other_choice_is_better(sizes: list[int], needed: int) -> None:
    choice = smallest(plain(*sizes), needed)
    all_choices = [
        subset
        for count in range(len(sizes) + 1)
        for subset in itertools.combinations(range(len(sizes)), count)
        if sum(sizes[index] for index in subset) >= needed
    ]
    if choice is None:
        assert all_choices == []
    else:
        best = min((sum(sizes[index] for index in subset), len(subset)) for subset in all_choices)
        assert (sum(sizes[index] for index in choice), len(choice)) == best


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=8), st.floats(0.1, 100))
def test_volumes_that_free_less_than_they_copy_are_enough_and_none_is_needless(
    volumes: list[tuple[int, int]], needed: float
) -> None:
    candidates = [Candidate(copied, min(copied, freed)) for copied, freed in volumes]
    choice = smallest(candidates, needed)
    if choice is None:
        assert sum(candidate.freed_gb for candidate in candidates) < needed
    else:
        freed = sum(candidates[index].freed_gb for index in choice)
        assert freed >= needed
        if any(candidate.freed_gb != candidate.copied_gb for candidate in candidates if candidate.freed_gb):
            assert all(freed - candidates[index].freed_gb < needed for index in choice)


def test_very_large_sums_are_not_searched_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_subsets, "_MOST_CELLS", 10)
    assert smallest(plain(10, 7, 4), 11) == [0, 1]
