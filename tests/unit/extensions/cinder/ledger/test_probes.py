# SPDX-License-Identifier: Apache-2.0
"""Probes of backends without agents, and the reports that answer them."""

import pytest

from tests.unit.ledger.observed import BACKEND, Ledger
from tonnage.extensions.cinder.ledger.observed_claims import SeenEnd
from tonnage.ledger.claims import bookings


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_each_probe_has_a_number_of_its_own(ledger: Ledger) -> None:
    numbers = [probe.number for _ in range(3) if (probe := ledger.probe())]
    assert numbers == [1, 2, 3]


def test_schedulers_probe_a_backend_once_in_an_interval(ledger: Ledger) -> None:
    assert ledger.due(60) == [BACKEND]
    assert ledger.probe(60) is not None
    assert ledger.due(60) == []
    assert ledger.probe(60) is None


def test_a_backend_is_probed_while_a_claim_that_has_ended_waits(ledger: Ledger) -> None:
    ledger.probe_and_report()
    assert ledger.due() == []
    claim = ledger.send(4)
    assert ledger.due() == []
    ledger.settle(SeenEnd(claim.id, True, kept=True))
    assert ledger.due() == [BACKEND]
    ledger.probe_and_report(4)
    assert ledger.due() == []


def test_a_report_contains_claims_that_ended_before_its_probe_was_numbered(ledger: Ledger) -> None:
    ledger.probe_and_report()
    claim = ledger.send(4)
    sent_too_early = ledger.probe()
    assert sent_too_early is not None
    ledger.settle(SeenEnd(claim.id, True, kept=True))
    ledger.report(sent_too_early.number, 0)
    assert ledger.counters() == (4, 4)
    ledger.probe_and_report(4)
    assert ledger.counters() == (4, 0)


def test_no_report_contains_a_claim_without_an_end(ledger: Ledger) -> None:
    ledger.probe_and_report()
    ledger.send(4)
    ledger.probe_and_report(0)
    assert ledger.counters() == (4, 4)


@pytest.mark.parametrize("again", [0, 1])
def test_only_the_report_of_a_later_probe_sets_figures(ledger: Ledger, again: int) -> None:
    first, second = ledger.probe(), ledger.probe()
    assert first is not None
    assert second is not None
    assert ledger.report(second.number, 7)
    assert not ledger.report((first, second)[again].number, 0)
    with pytest.raises(bookings.PoolsChanged):
        ledger.book(4)


def test_a_number_that_was_never_allocated_sets_no_figures(ledger: Ledger) -> None:
    ledger.probe_and_report(7)
    assert not ledger.report(9, 0)


def test_a_report_of_another_epoch_sets_no_figures(ledger: Ledger) -> None:
    probe = ledger.probe()
    assert probe is not None
    assert not ledger.report(probe.number, 0, epoch=2)


def test_a_storage_that_lags_needs_one_more_probe(ledger: Ledger) -> None:
    ledger.probe_and_report(lag=1)
    claim = ledger.send(4)
    ledger.settle(SeenEnd(claim.id, True, kept=True))
    ledger.probe_and_report(0, lag=1)
    assert ledger.counters() == (4, 4)
    ledger.probe_and_report(4, lag=1)
    assert ledger.counters() == (4, 0)


def test_nothing_fits_in_a_pool_that_is_not_reported_any_more(ledger: Ledger) -> None:
    ledger.probe_and_report()
    ledger.probe_and_report(pools=[f"{BACKEND}#other"])
    with pytest.raises(bookings.PoolsChanged):
        ledger.book(1)


def test_a_pool_without_usable_figures_takes_nothing_until_a_report_has_some(ledger: Ledger) -> None:
    ledger.probe_and_report()
    claim = ledger.send(4)
    ledger.settle(SeenEnd(claim.id, True, kept=True))
    ledger.probe_and_report(pools=[])
    with pytest.raises(bookings.PoolsChanged):
        ledger.book(1)
    ledger.probe_and_report(4)
    assert ledger.counters() == (4, 0)
    ledger.book(6)
