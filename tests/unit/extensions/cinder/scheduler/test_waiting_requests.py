# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for a decision."""

import pytest

from tests.unit.extensions.cinder.scheduler.cinder_model import Row
from tests.unit.extensions.cinder.scheduler.test_claim_ends import A, claim
from tonnage.extensions.cinder.ledger.growths import GROW
from tonnage.extensions.cinder.ledger.observed_claims import OpenClaim
from tonnage.extensions.cinder.scheduler.waiting_requests import WaitingRequests

WAITING = {
    "create": Row("v", 3, None, "creating"),
    "extend": Row("v", 3, A, "extending"),
    "migrate": Row("v", 3, A, "available", "starting"),
    "retype": Row("v", 3, A, "retyping"),
}

#: The verbs of the claims that decide them.
VERBS = dict(zip(WAITING, ("create", "extend", "migrate", "migrate"), strict=True))


def overdue(row: Row, *claims: OpenClaim) -> list[str]:
    return [kind for _, kind, _ in WaitingRequests(0).overdue(claims, [row])]


@pytest.mark.parametrize("kind", WAITING)
def test_a_request_waits_until_a_claim_decides_it(kind: str) -> None:
    row, verb = WAITING[kind], VERBS[kind]
    assert overdue(row) == [kind]
    assert overdue(row, claim(ended=True)) == [kind]
    assert overdue(row, claim(verb, sent=False)) == [kind]
    assert overdue(row, claim(verb)) == []


@pytest.mark.parametrize("migration_status", ["", "starting"])
def test_a_volume_that_moves_to_grow_waits_for_no_decision(migration_status: str) -> None:
    assert overdue(Row("v", 3, A, "extending", migration_status), claim(GROW, sent=False)) == []


def test_a_retype_is_decided_while_its_volume_moves() -> None:
    """Its claim has ended then: the row of the target counts instead."""
    for migration_status in ("starting", "migrating", "completing"):
        assert overdue(Row("v", 3, A, "retyping", migration_status)) == []


@pytest.mark.parametrize("row", [Row("v", 3, A, "creating"), Row("v", 3, None, "error"), Row("v", 3, A, "available")])
def test_a_volume_in_hand_or_at_rest_waits_for_no_decision(row: Row) -> None:
    assert overdue(row) == []


def test_the_time_begins_again_with_another_request() -> None:
    row = WAITING["extend"]
    polls = {0: [row], 50: [], 60: [row], 119: [row], 120: [row], 121: [row]}
    times = iter(polls)
    waiting = WaitingRequests(60, lambda: float(next(times)))
    assert [len(waiting.overdue([], rows)) for rows in polls.values()] == [0, 0, 0, 0, 1, 0]
