# SPDX-License-Identifier: Apache-2.0
"""The entry of a backend: the age of its figures, and the pools that it limits."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tonnage.ledger.inventory.backends import BackendRow
from tonnage.scheduler.cache.backend_state import LIFETIME, BackendEntry


@pytest.fixture
def entry() -> BackendEntry:
    """A backend whose last report was collected at 100 s."""
    entry = BackendEntry(
        id=1,
        name="h@b",
        availability_zone="nova",
        enabled=True,
        disabled_reason=None,
        epoch=1,
        report_seq=1,
        report_covers=1,
        last_seen=100.0,
    )
    entry.set_collected(100.0, unusable=[])
    return entry


def row(silence: float | None, report_age: float = 0.0) -> BackendRow:
    return cast("BackendRow", SimpleNamespace(silence=silence, report_age=report_age, notice=None))


def test_figures_expire_after_the_lifetime_of_their_pool(entry: BackendEntry) -> None:
    entry.add_pool("limited", {LIFETIME: 30})
    entry.add_pool("unlimited", {})
    assert entry.update_expired(130.0) == set()
    assert entry.update_expired(131.0) == {"limited"}
    assert entry.update_expired(132.0) == set()
    entry.set_collected(132.0, unusable=[])
    assert entry.update_expired(133.0) == {"limited"}
    assert entry.expired == set()


def test_a_pool_without_usable_figures_keeps_the_age_of_its_last_ones(entry: BackendEntry) -> None:
    entry.add_pool("p", {LIFETIME: 30})
    for collected in (110.0, 120.0):
        entry.set_collected(collected, unusable=["p"])
    assert (entry.collected_at("p"), entry.collected_at("other")) == (100.0, 120.0)
    assert entry.update_expired(131.0) == {"p"}
    entry.set_collected(131.0, unusable=[])
    assert entry.collected_at("p") == 131.0
    assert entry.update_expired(131.0) == {"p"}


@pytest.mark.parametrize("lifetime", [True, "30", math.nan, [30]])
def test_figures_with_a_lifetime_that_is_no_number_are_not_used(entry: BackendEntry, lifetime: Any) -> None:
    entry.add_pool("p", {LIFETIME: lifetime})
    assert entry.update_expired(100.1) == {"p"}


def test_the_fields_that_need_a_reader_are_kept_as_the_pool_reports_them(entry: BackendEntry) -> None:
    rules = {"filter_function": "1 < 2", "min_free_capacity_percentage": 5, "node_name": "n1", "storage_class": "gold"}
    entry.add_pool("p", {**rules, "media": "ssd"})
    assert entry.rules == {"p": frozenset(rules)}
    entry.add_pool("p", {**rules, "provisioner": "csi.example.com"})  # Kubernetes reads the nodes and the classes
    assert entry.rules == {"p": frozenset({"filter_function", "min_free_capacity_percentage"})}
    entry.add_pool("p", {"media": "ssd"})
    assert entry.rules == {}


def test_a_removed_pool_neither_expires_nor_has_rules(entry: BackendEntry) -> None:
    entry.add_pool("p", {LIFETIME: 30, "filter_function": "1 < 2"})
    entry.update_expired(131.0)
    entry.remove_pool("p")
    assert (entry.pools, entry.expired, entry.rules) == (set(), set(), {})
    assert entry.update_expired(200.0) == set()


def test_rules_and_lifetimes_follow_the_capabilities(entry: BackendEntry) -> None:
    entry.add_pool("p", {LIFETIME: 30, "goodness_function": "50"})
    assert entry.rules == {"p": {"goodness_function"}}
    entry.add_pool("p", {"filter_function": "1 < 2"})
    assert entry.rules == {"p": {"filter_function"}}
    assert entry.lifetimes == {}


def test_a_report_that_another_scheduler_received_counts(entry: BackendEntry) -> None:
    entry.update_last_seen(row(silence=5.0, report_age=2.0), now=120.0)
    assert (entry.last_seen, entry.last_collected) == (115.0, 113.0)
    entry.update_last_seen(row(silence=60.0), now=121.0)
    entry.update_last_seen(row(silence=None), now=122.0)
    assert (entry.last_seen, entry.last_collected) == (115.0, 113.0)
