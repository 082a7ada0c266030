# SPDX-License-Identifier: Apache-2.0
"""The choice of volumes that together free an amount, with as few GiB to copy as possible."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Most cells of the table of the exact search; above, the largest volumes are taken first.
_MOST_CELLS = 50_000_000

_UNREACHABLE = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Candidate:
    """A volume that may be chosen: the GiB that its move copies, and the GiB that its move frees."""

    copied_gb: int
    freed_gb: float


def smallest(candidates: Sequence[Candidate], needed_gb: float) -> list[int] | None:
    """Return the indexes of the candidates that free ``needed_gb`` with the fewest GiB copied, then the fewest moves.

    None if all of them together free less. Candidates that free nothing are never chosen. The search is exact as long
    as each candidate frees as much as it copies (a knapsack by sums: ``moves[s]`` is the smallest number of volumes
    whose sizes add up to ``s``); otherwise, and for very large sums, it is the greedy choice without the volumes that
    the others make unnecessary.

    Example: of volumes of 10, 7 and 4 GiB the choice for 11 GiB is ``7 + 4``, which copies 11 GiB, and not ``10 + 4``.
    """
    useful = [index for index, candidate in enumerate(candidates) if candidate.freed_gb > 0]
    if needed_gb <= 0:
        return []
    if sum(candidates[index].freed_gb for index in useful) < needed_gb:
        return None
    sizes = [candidates[index].copied_gb for index in useful]
    is_plain = all(candidates[index].freed_gb == candidates[index].copied_gb for index in useful)
    most = int(np.ceil(needed_gb)) + max(sizes)
    if is_plain and most * len(useful) <= _MOST_CELLS:
        return sorted(useful[position] for position in _exact(sizes, int(np.ceil(needed_gb)), most))
    return sorted(_greedy(candidates, useful, needed_gb))


def _exact(sizes: Sequence[int], needed: int, most: int) -> list[int]:
    """Return positions of ``sizes``. Volumes of the same size are taken together: 1, 2, 4, ... of them at a time."""
    positions: dict[int, list[int]] = defaultdict(list)
    for position, size in enumerate(sizes):
        positions[size].append(position)
    packs = [(size, count) for size, same in positions.items() for count in _parts(len(same)) if size * count <= most]
    moves = np.full(most + 1, _UNREACHABLE, dtype=np.int32)
    moves[0] = 0
    is_taken = np.zeros((len(packs), most + 1), dtype=np.bool_)
    for number, (size, count) in enumerate(packs):
        with_these = moves[: most + 1 - size * count].copy()
        with_these[with_these != _UNREACHABLE] += count
        is_taken[number, size * count :] = with_these < moves[size * count :]
        moves[size * count :] = np.minimum(moves[size * count :], with_these)
    total = needed + int(np.argmax(moves[needed:] != _UNREACHABLE))
    chosen = []
    for number in range(len(packs) - 1, -1, -1):
        if is_taken[number, total]:
            size, count = packs[number]
            chosen += [positions[size].pop() for _ in range(count)]
            total -= size * count
    return chosen


def _parts(count: int) -> list[int]:
    """Return numbers of which some add up to each number up to ``count``, and all to ``count``."""
    parts, part = [], 1
    while part <= count:
        parts.append(part)
        count -= part
        part *= 2
    return [*parts, count] if count else parts


def _greedy(candidates: Sequence[Candidate], useful: Sequence[int], needed_gb: float) -> list[int]:
    # Volumes with a large share of freed GiB come first, and of these the large ones.
    order = sorted(useful, key=lambda index: (-_share(candidates[index]), -candidates[index].copied_gb, index))
    chosen: list[int] = []
    freed = 0.0
    for index in order:
        if freed >= needed_gb:
            break
        chosen.append(index)
        freed += candidates[index].freed_gb
    for index in sorted(chosen, key=lambda index: -candidates[index].copied_gb):
        if freed - candidates[index].freed_gb >= needed_gb:
            chosen.remove(index)
            freed -= candidates[index].freed_gb
    return chosen


def _share(candidate: Candidate) -> float:
    return candidate.freed_gb / candidate.copied_gb
