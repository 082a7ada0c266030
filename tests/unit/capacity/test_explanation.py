# SPDX-License-Identifier: Apache-2.0
"""The order of the pools in an explanation."""

from tonnage.capacity.decision import Rejection
from tonnage.capacity.explanation import Explanation, FilterVerdict, PoolVerdict

NO = Rejection("refused", "is refused")


def refused(pool: str, by: str, headroom: float | None = None, also: int = 0) -> PoolVerdict:
    return PoolVerdict(pool, by, NO, headroom=headroom, also=(FilterVerdict("Third", NO),) * also)


def test_the_chosen_pool_comes_first_and_the_nearest_refused_ones_before_the_others() -> None:
    verdicts = (
        refused("wrong twice", "First", 900, also=1),
        refused("first filter", "First", 800),
        refused("less room", "Second", 1),
        refused("more room", "Second", 2),
        refused("unknown filter", "Other"),
        PoolVerdict("light", total_weight=0.1),
        PoolVerdict("heavy", total_weight=0.9),
        PoolVerdict("chosen", total_weight=0.5),
    )
    explanation = Explanation("1 GiB", "chosen", "", verdicts, ("First", "Second", "Third"))
    assert [verdict.pool for verdict in explanation.ranked()] == [
        *("chosen", "heavy", "light"),
        *("more room", "less room", "first filter", "unknown filter", "wrong twice"),
    ]
