# SPDX-License-Identifier: Apache-2.0
"""The table of an explanation."""

import math

from tonnage.capacity.decision import Rejection
from tonnage.capacity.explanation import Explanation, FilterVerdict, PoolVerdict, Weight
from tonnage.cli.simulation import explanations

WEIGHTS = (Weight("CapacityWeigher", 7.0, 1.0, 2.0), Weight("OddWeigher", 0.0, 0.0, 1.0, "ValueError: boom"))
CHOSEN = PoolVerdict("h@b#p", weights=WEIGHTS, total_weight=2.0, headroom="infinite", thin=True)
CANDIDATE = PoolVerdict("h@b#q", total_weight=1.0, headroom=3.0, thin=False)
REFUSED = PoolVerdict(
    "h@b#r",
    "CapacityFilter",
    Rejection("no_capacity", "has headroom 2.00 GiB"),
    also=(FilterVerdict("OddFilter", Rejection("odd", "is odd")),),
    headroom=2.0,
)
EXPLANATION = Explanation("4 GiB", "h@b#p", "4 GiB goes to h@b#p", (REFUSED, CANDIDATE, CHOSEN))


def cells(heading: str) -> list[str]:
    """Return the cells of a column of the table."""
    rows = explanations.rows(EXPLANATION)
    [column] = [column for column in explanations.columns(rows) if str(column.heading).startswith(heading)]
    return [column.cell(row) for row in rows]


def test_the_chosen_pool_comes_first_and_refused_pools_last() -> None:
    assert cells("pool") == ["h@b#p", "h@b#q", "h@b#r"]
    assert cells("verdict") == ["chosen", "candidate", "refused"]
    assert cells("weight") == ["2.000", "1.000", ""]


def test_the_headroom_tells_the_provisioning() -> None:
    infinite, thick, unknown = cells("headroom")
    assert infinite == "infinite thin"
    assert thick.endswith(" thick")
    assert not unknown.endswith((" thin", " thick"))
    assert [row.headroom_gb for row in explanations.rows(EXPLANATION)] == [None, 3.0, 2.0]


def test_all_filters_that_refuse_a_pool_give_their_reasons() -> None:
    reasons = [row.because for row in explanations.rows(EXPLANATION)]
    assert reasons == [None, None, "CapacityFilter: has headroom 2.00 GiB; OddFilter: is odd"]


def test_each_weigher_has_a_column() -> None:
    assert cells("CapacityWeigher")[0] == "7 -> 1.000 x 2"
    assert cells("OddWeigher")[0] == "failed"


def test_a_failed_weigher_has_one_note() -> None:
    rows = explanations.rows(EXPLANATION)
    assert explanations.notes(EXPLANATION, rows) == ["OddWeigher failed and counts 0 for every pool: ValueError: boom"]


def test_advice_is_a_note() -> None:
    refused = Explanation("4 GiB", None, "No pool for 4 GiB", (REFUSED,), advice=("1 move would make room",))
    assert explanations.notes(refused, explanations.rows(refused)) == ["1 move would make room"]


def test_null_weights_become_nan() -> None:
    answer = explanations.with_nan([{"weights": [{"raw": None, "failure": None}, {"raw": 1.5}]}])
    assert math.isnan(answer[0]["weights"][0]["raw"])
    assert answer[0]["weights"][0]["failure"] is None
    assert answer[0]["weights"][1]["raw"] == 1.5
