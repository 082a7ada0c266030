# SPDX-License-Identifier: Apache-2.0
"""Random cases: a request, and pools as drivers report them, most of them sound and some of them not."""

import random
from collections.abc import Callable, Iterator

from beside_cinder import capability_cases, capacity_cases, function_cases, place_cases
from beside_cinder.cases import Case

#: What is drawn, and how often.
_KINDS: list[tuple[Callable[[random.Random], Case], int]] = [
    (capacity_cases.capacity, 45),
    (capability_cases.by_protocol, 3),
    (capability_cases.typed, 16),
    (capacity_cases.weighed, 14),
    (function_cases.functioned, 8),
    (function_cases.queried, 8),
    (place_cases.beside, 2),
    (place_cases.zoned, 2),
    (place_cases.retried, 1),
    (place_cases.local, 1),
]


def draw(number: int, seed: int) -> Iterator[Case]:
    """Yield so many cases, the same ones for the same seed."""
    dice = random.Random(seed)
    kinds, shares = zip(*_KINDS, strict=True)
    for kind in dice.choices(kinds, shares, k=number):
        yield kind(dice)
