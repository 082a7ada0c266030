# SPDX-License-Identifier: Apache-2.0
"""Generator of random cases: a request, and pools as drivers report them, most of them consistent."""

import random
from collections.abc import Callable, Iterator

from cinder_comparison import capability_cases, capacity_cases, function_cases, location_cases
from cinder_comparison.cases import Case

#: The kinds of cases, with their frequency.
_KINDS: list[tuple[Callable[[random.Random], Case], int]] = [
    (capacity_cases.capacity, 45),
    (capability_cases.storage_protocol, 3),
    (capability_cases.extra_specs, 16),
    (capacity_cases.weights, 14),
    (function_cases.filter_functions, 8),
    (function_cases.queries, 8),
    (location_cases.affinity, 2),
    (location_cases.availability_zone, 2),
    (location_cases.retry, 1),
    (location_cases.instance_locality, 1),
]


def generate(number: int, seed: int) -> Iterator[Case]:
    """Yield ``number`` cases. The same seed yields the same cases."""
    dice = random.Random(seed)
    kinds, shares = zip(*_KINDS, strict=True)
    for kind in dice.choices(kinds, shares, k=number):
        yield kind(dice)
