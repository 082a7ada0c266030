# SPDX-License-Identifier: Apache-2.0
"""Backends that Cinder does not use are down in the ledger."""

import pytest

from tests.unit.ledger.observed import BACKEND, Ledger
from tonnage.extensions.cinder.ledger import backend_problems
from tonnage.extensions.cinder.ledger.backend_problems import Service
from tonnage.extensions.cinder.scheduler.cinder_ledger import CinderLedger
from tonnage.ledger.inventory import overviews

UP = Service(BACKEND, disabled=False, frozen=False, alive=True)
DOWN = UP._replace(alive=False)


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.probe_and_report()
    return ledger


def state(ledger: Ledger) -> tuple[bool, str | None]:
    """Return whether the backend is up, and its problem, as each overview has them."""
    with ledger.database.reading() as session:
        [backend] = overviews.OVERVIEWS["backends"].page(session, {}, 60.0)
        [pool] = overviews.OVERVIEWS["pools"].page(session, {}, 60.0)
    assert (pool.up, pool.problem) == (backend.up, backend.problem)
    return backend.up, backend.problem


@pytest.mark.parametrize(
    ("services", "problem"),
    [
        ([DOWN._replace(disabled=True)], "its service in Cinder is disabled"),
        ([UP._replace(disabled=True, frozen=True)], "its service in Cinder is frozen"),
        ([DOWN], "its service in Cinder is down"),
        ([DOWN, DOWN], "its service in Cinder is down"),
        ([UP._replace(backend="other@b")], "it has no service in Cinder"),
    ],
)
def test_a_backend_that_cinder_does_not_use_is_down_until_it_does(
    ledger: Ledger, services: list[Service], problem: str
) -> None:
    cinder = CinderLedger(ledger.database, lease=60, lag=0)
    for used in ([UP], [DOWN, UP], [UP, DOWN]):
        cinder.record_problems(backend_problems.of_services(services))
        assert state(ledger) == (False, problem)
        cinder.record_problems(backend_problems.of_services(used))
        assert state(ledger) == (True, None)


def test_a_report_ends_a_problem_and_a_problem_that_stays_is_recorded_again(ledger: Ledger) -> None:
    cinder = CinderLedger(ledger.database, lease=60, lag=0)
    cinder.record_problems({})
    ledger.probe_and_report()
    assert state(ledger) == (True, None)
    cinder.record_problems({})
    assert state(ledger) == (False, "it has no service in Cinder")
