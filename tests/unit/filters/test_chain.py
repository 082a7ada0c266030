# SPDX-License-Identifier: Apache-2.0
"""Tests of the filter chain: masks, counts, refusals, explanations, and plugins that fail."""

import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import FilterOutcome, Rejection
from tonnage.capacity.explanation import FilterVerdict, PoolVerdict
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Provisioning, Request
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.base import Filter, Mask, PoolFilter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.filters.driver import DriverFilter
from tonnage.filters.topology import TopologyFilter

NO_OPTIONS = SimpleNamespace()
REQUEST = Request("r", 1)


def table(count: int = 4, **figures: Any) -> PoolTable:
    return PoolTable(Pool(name=f"h@b#{i}", total=100.0, free=10.0 * i, **figures) for i in range(count))


class ListFilter(PoolFilter):
    """Accepts the listed pools and records the pools that it was called for."""

    def __init__(self, name: str, *names: int) -> None:
        super().__init__(NO_OPTIONS)
        self.name = name
        self._accepted = {f"h@b#{i}" for i in names}
        self.asked: list[str] = []

    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        self.asked.append(pool.name)
        return pool.name in self._accepted

    def reason(self, pool: Pool, request: Request) -> Rejection:
        return Rejection("not_listed", f"is not listed by {self.name}")


class CallbackFilter(Filter):
    """Returns the result of a callback. Each instance has its own name, because a failure is logged once per name."""

    def __init__(self, answer: Callable[[PoolTable], Any]) -> None:
        super().__init__(NO_OPTIONS)
        self.name = f"CallbackFilter{uuid.uuid4().hex}"
        self._answer = answer

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        return self._answer(pools)  # type: ignore[no-any-return]


def test_a_pool_remains_if_every_filter_accepts_it() -> None:
    first, second = ListFilter("A", 1, 2, 3), ListFilter("B", 0, 2, 3)
    chain = FilterChain([first, second])
    result = chain.run(table(), REQUEST)
    assert result.remaining.tolist() == [False, False, True, True]
    assert second.asked == ["h@b#1", "h@b#2", "h@b#3"]
    outcomes = chain.refusal(table(), REQUEST, result).outcomes
    assert outcomes == (FilterOutcome("A", 1), FilterOutcome("B", 1))


def test_filters_do_not_run_without_remaining_pools() -> None:
    chain = FilterChain([ListFilter("A"), CallbackFilter(explode)])
    result = chain.run(table(), REQUEST)
    assert not result.remaining.any()
    assert result.failures == {}
    outcomes = chain.refusal(table(), REQUEST, result).outcomes
    assert [outcome.refused for outcome in outcomes] == [4, 0]
    assert outcomes[0] == FilterOutcome("A", 4)


def test_an_empty_chain_accepts_all_and_an_empty_table_is_no_error() -> None:
    assert FilterChain([]).run(table(2), REQUEST).remaining.tolist() == [True, True]
    chain = FilterChain([ListFilter("A")])
    result = chain.run(PoolTable(), REQUEST)
    assert result.remaining.tolist() == []
    assert (
        chain.refusal(PoolTable(), REQUEST, result).message == "No pool for 1 GiB: no backend reports a pool at present"
    )


def test_a_request_for_one_pool() -> None:
    chain = FilterChain([ListFilter("A", 0, 1)])
    result = chain.run(table(), Request("r", 1, pool="h@b#1"))
    assert result.remaining.tolist() == [False, True, False, False]
    request = Request("r", 1, pool="h@b#2")
    result = chain.run(table(), request)
    assert chain.refusal(table(), request, result).message == (
        "No pool for 1 GiB: 1 pool; A refused 1, nearest h@b#2 is not listed by A"
    )
    assert [verdict.pool for verdict in chain.explain(table(), request, result)] == ["h@b#2"]
    request = Request("r", 1, pool="gone@b#1")
    result = chain.run(table(), request)
    assert chain.refusal(table(), request, result).message == ("No pool for 1 GiB: gone@b#1 is not reported at present")


def test_the_refusal_names_the_counts_and_the_nearest_miss() -> None:
    gold: dict[str, Any] = {"total": 1000.0, "free": 700.0, "reserved_percentage": 10.0, "ratio": 2.0, "thin": True}
    gold["capabilities"] = {"a": "b"}
    pools = PoolTable(
        [
            Pool(name="ssd2@lvm#gold", provisioned=1500.0, availability_zone="a", **gold),
            Pool(name="ssd1@lvm#gold", provisioned=1400.0, claimed=20.0, availability_zone="a", **gold),
            # More headroom than the others, but refused by an earlier filter.
            Pool(name="ssd3@lvm#gold", provisioned=0.0, availability_zone="b", **gold),
        ]
    )
    calculation = Calculation.STANDARD
    conf = SimpleNamespace(over_provisioning_calculation=calculation)
    chain = FilterChain([AvailabilityZoneFilter(conf), CapacityFilter(conf), CapabilitiesFilter(conf)], calculation)
    request = Request(
        "r", 500, provisioning=Provisioning.THIN, volume_type="gold", availability_zone="a", extra_specs={"a": "b"}
    )
    assert chain.refusal(pools, request, chain.run(pools, request)).message == (
        "No pool for 500 GiB thin 'gold': 3 pools; AvailabilityZoneFilter refused 1; CapacityFilter refused 2, nearest "
        "ssd1@lvm#gold has headroom 380.00 GiB "
        "(total 1000, provisioned 1400, in flight 20, reserved 10 %, ratio 2.0, standard)"
    )


def test_the_nearest_miss_has_the_most_headroom_of_the_pools_that_passed_most_filters() -> None:
    chain = FilterChain([ListFilter("A", 0, 1, 2), ListFilter("B")])
    pools = table()  # free space and headroom increase with the number
    nearest = chain.refusal(pools, REQUEST, chain.run(pools, REQUEST)).nearest
    assert nearest is not None
    assert (nearest.pool, nearest.filter) == ("h@b#2", "B")
    assert nearest.rejection.message == "is not listed by B"


def test_the_pools_that_a_volume_is_to_leave_count_only_without_others() -> None:
    chain = FilterChain([ListFilter("A", 2), ListFilter("B", 0)])
    move = Request("r", 1, operation=Operation.MIGRATE, attempted=frozenset({"h@b#3", "gone@b#0"}))
    refusal = chain.refusal(table(), move, chain.run(table(), move))
    assert refusal.message == ("No pool for 1 GiB: 3 pools; A refused 2; B refused 1, nearest h@b#2 is not listed by B")
    retry = replace(move, operation=Operation.CREATE)
    assert chain.refusal(table(), retry, chain.run(table(), retry)).pools == 4
    alone = replace(move, pool="h@b#3")
    assert chain.refusal(table(), alone, chain.run(table(), alone)).message == (
        "No pool for 1 GiB: 1 pool; A refused 1, nearest h@b#3 is not listed by A"
    )


class AmountFilter(ListFilter):
    """Refuses because an amount is too small."""

    def reason(self, pool: Pool, request: Request) -> Rejection:
        return Rejection("short", "is too small", {"headroom": 1.0})


@pytest.mark.parametrize(
    ("filters", "nearest"),
    [
        # Pool 3 passed more filters than pool 0, but two filters refuse it.
        ((ListFilter("A", 1, 2, 3), ListFilter("B", 0), ListFilter("C", 0)), ("h@b#0", "A")),
        # A pool that is too small is nearer than a pool of an unsuitable kind, regardless of the order of filters.
        ((AmountFilter("A", 3), ListFilter("B", 0, 1, 2)), ("h@b#2", "A")),
        ((ListFilter("A", 0, 1, 2), AmountFilter("B", 3)), ("h@b#2", "B")),
        # A filter that fails refuses every pool.
        ((ListFilter("A", 0, 1), CallbackFilter(lambda pools: None), AmountFilter("C", 0)), ("h@b#1", "")),
    ],
)
def test_the_nearest_miss_is_refused_by_the_fewest_filters(
    filters: tuple[Filter, ...], nearest: tuple[str, str]
) -> None:
    chain = FilterChain(filters)
    found = chain.refusal(table(), REQUEST, chain.run(table(), REQUEST)).nearest
    assert found is not None
    if nearest[1]:
        assert (found.pool, found.filter) == nearest
    else:
        assert found.pool in ("h@b#0", "h@b#1")


def test_an_explanation_has_the_verdict_of_every_filter_on_every_pool() -> None:
    chain = FilterChain([ListFilter("A", 1, 2), ListFilter("B", 0, 2), ListFilter("C", 1, 2)])
    pools = table(3)
    reasons = {name: Rejection("not_listed", f"is not listed by {name}") for name in "ABC"}
    assert chain.explain(pools, REQUEST, chain.run(pools, REQUEST)) == [
        PoolVerdict("h@b#0", "A", reasons["A"], also=(FilterVerdict("C", reasons["C"]),), headroom=0.0, thin=False),
        PoolVerdict("h@b#1", "B", reasons["B"], headroom=10.0, thin=False),
        PoolVerdict("h@b#2", headroom=20.0, thin=False),
    ]


def test_an_explanation_keeps_the_verdicts_of_the_decision_if_a_filter_is_inconsistent() -> None:
    def two_at_most(pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        if np.count_nonzero(still_in) > 2:
            raise ValueError("too many")
        return still_in

    inconsistent = CallbackFilter(lambda pools: np.ones(len(pools), dtype=np.bool_))
    inconsistent.narrow = two_at_most  # type: ignore[method-assign]
    chain = FilterChain([ListFilter("A", 1, 2), inconsistent])
    pools = table(3)
    verdicts = chain.explain(pools, REQUEST, chain.run(pools, REQUEST))
    assert [(each.filter, len(each.also)) for each in verdicts] == [("A", 1), (None, 0), (None, 0)]


def explode(pools: PoolTable) -> Any:
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (explode, "ValueError: boom"),
        (lambda pools: None, "TypeError: returned a NoneType, expected an array of 4 booleans"),
        (lambda pools: [True] * 4, "TypeError: returned a list, expected an array of 4 booleans"),
        (lambda pools: np.ones(3, dtype=bool), "returned an array of bool of shape (3,), expected an array of 4"),
        (lambda pools: np.ones(4), "returned an array of float64 of shape (4,)"),
        (lambda pools: np.ones((4, 1), dtype=bool), "returned an array of bool of shape (4, 1)"),
        (lambda pools: np.True_, "returned a bool"),
    ],
)
def test_a_filter_that_fails_refuses_every_pool_in_each_decision(
    answer: Callable[[PoolTable], Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = CallbackFilter(answer)
    chain = FilterChain([plugin, ListFilter("B", 0, 1, 2, 3)])
    pools = table()
    for _ in range(3):
        result = chain.run(pools, REQUEST)
        assert not result.remaining.any()
        message = chain.refusal(pools, REQUEST, result).message
        assert f"4 pools; {plugin.name} refused 4, nearest h@b#3 could not be judged, {plugin.name} failed (" in message
        assert problem in message
    verdict = chain.explain(pools, REQUEST, result)[0]
    assert verdict.rejection is not None
    assert verdict.rejection.code == "filter_failed"
    logged = [record for record in caplog.records if plugin.name in record.getMessage()]
    assert [record.levelno for record in logged] == [logging.ERROR]


def test_a_refusal_survives_an_error_in_reason() -> None:
    class RaisingReason(CallbackFilter):
        def reason(self, pool: Pool, request: Request) -> Rejection:
            raise LookupError("no words")

    class TextReason(CallbackFilter):
        def reason(self, pool: Pool, request: Request) -> Rejection:
            return "because"  # type: ignore[return-value]

    for kind, words in ((RaisingReason, "LookupError: no words"), (TextReason, "reason() returned a str")):
        plugin = kind(lambda pools: np.zeros(len(pools), dtype=np.bool_))
        chain = FilterChain([plugin])
        assert words in chain.refusal(table(), REQUEST, chain.run(table(), REQUEST)).message


def test_a_filter_cannot_change_the_mask_of_earlier_filters() -> None:
    class MaskWriter(Filter):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return np.ones(len(pools), dtype=np.bool_)

        def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
            still_in[:] = True
            return still_in

    chain = FilterChain([ListFilter("A", 1), MaskWriter(NO_OPTIONS)])
    result = chain.run(table(), REQUEST)
    assert result.masks[1].tolist() == [False, True, False, False]
    assert not result.remaining.any()
    assert "read-only" in result.failures[1]


def test_a_column_that_a_filter_returns_is_not_changed() -> None:
    pools = table(thin=True)
    FilterChain([ListFilter("A", 1), CallbackFilter(lambda pools: pools.thin), ListFilter("B")]).run(pools, REQUEST)
    assert pools.thin.all()
    pools.put(Pool(name="h@b#0", total=1.0, free=1.0))
    assert pools.thin.tolist() == [False, True, True, True]


def test_columns_are_read_only_for_plugins() -> None:
    pools = table()
    with pytest.raises(ValueError, match="read-only"):
        pools.free[0] = 1e9


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=5), max_size=4))
def test_counts_agree_with_the_explanation(accepted: list[list[int]]) -> None:
    pools = table(5)
    chain = FilterChain([ListFilter(f"F{i}", *numbers) for i, numbers in enumerate(accepted)])
    result = chain.run(pools, REQUEST)
    expected = set(range(5)).intersection(*map(set, accepted)) if accepted else set(range(5))
    assert set(np.flatnonzero(result.remaining).tolist()) == expected
    verdicts = chain.explain(pools, REQUEST, result)
    assert tuple(verdict.pool for verdict in verdicts) == pools.names
    refusal = chain.refusal(pools, REQUEST, result)
    for outcome in refusal.outcomes:
        assert outcome.refused == sum(verdict.filter == outcome.filter for verdict in verdicts)
    assert sum(outcome.refused for outcome in refusal.outcomes) + len(expected) == 5


class CategoryFilter(ListFilter):
    """A list of the pools of the category."""

    is_categorical = True


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        # Pools 0 and 1 are of another type, and full as well.
        ((ListFilter("Room"), CategoryFilter("Type", 2)), "Type refused 2; Room refused 1, nearest h@b#2 is not"),
        ((CategoryFilter("Type", 2), ListFilter("Room")), "Type refused 2; Room refused 1, nearest h@b#2 is not"),
        # Pool 0 is in another zone too, and counts once, for the first category.
        (
            (ListFilter("Room"), CategoryFilter("Zone", 1, 2), CategoryFilter("Type", 2)),
            "Zone refused 1; Type refused 1; Room refused 1, nearest h@b#2 is not",
        ),
        # All are of another type, so room would help none of them.
        ((ListFilter("Room"), CategoryFilter("Type")), "Type refused 3, nearest h@b#2 is not listed by Type"),
    ],
)
def test_pools_of_another_category_count_first_wherever_their_filter_stands(
    filters: tuple[Filter, ...], message: str
) -> None:
    chain, pools = FilterChain(filters), table(3)
    result = chain.run(pools, REQUEST)
    refusal = chain.refusal(pools, REQUEST, result)
    assert refusal.message.startswith(f"No pool for 1 GiB: 3 pools; {message}")
    verdicts = chain.explain(pools, REQUEST, result)
    for outcome in refusal.outcomes:
        assert outcome.refused == sum(verdict.filter == outcome.filter for verdict in verdicts)


def test_a_category_that_cannot_be_judged_counts_only_the_pools_of_the_decision() -> None:
    def two_at_most(pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        if np.count_nonzero(still_in) > 2:
            raise ValueError("too many")
        return np.zeros(len(pools), dtype=np.bool_)

    category = CategoryFilter("Type")
    category.narrow = two_at_most  # type: ignore[method-assign]
    chain, pools = FilterChain([ListFilter("Room", 1, 2), category]), table(3)
    refusal = chain.refusal(pools, REQUEST, chain.run(pools, REQUEST))
    assert refusal.outcomes == (FilterOutcome("Room", 1), FilterOutcome("Type", 2))


def test_the_nearest_miss_is_a_pool_of_the_kind_of_the_request() -> None:
    """A full pool of the class, which two filters refuse, and an empty one of another class, which one refuses."""
    limit = {"filter_function": "volume.size <= capabilities.maximum_volume_size_gb", "maximum_volume_size_gb": 1.0}
    pools = PoolTable(
        [
            Pool(name="h@b#safe", total=10.0, free=1.0, capabilities={"storage_class": "safe", **limit}),
            Pool(name="h@b#fast", total=10.0, free=10.0, capabilities={"storage_class": "fast"}),
        ]
    )
    conf = SimpleNamespace(over_provisioning_calculation=Calculation.CINDER)
    chain = FilterChain([CapacityFilter(conf), CapabilitiesFilter(conf), DriverFilter(conf)])
    request = Request("r", 8, extra_specs={"storage_class": "safe"})
    refusal = chain.refusal(pools, request, chain.run(pools, request))
    assert refusal.nearest is not None
    assert refusal.nearest.pool == "h@b#safe"
    chain = FilterChain([DriverFilter(conf), CapabilitiesFilter(conf)])
    refusal = chain.refusal(pools, request, chain.run(pools, request))
    assert "DriverFilter refused 1, nearest h@b#safe makes no such volume: largest volume is 1 GiB" in refusal.message


@pytest.mark.parametrize(
    "accessible",
    [{"node_name": "n1"}, {"node_list": ["n1", "n3"]}, {"topology_labels": {"zone": "z1"}}],
    ids=lambda capabilities: next(iter(capabilities)),
)
def test_the_nearest_miss_of_a_full_node_is_a_pool_of_that_node(accessible: dict[str, Any]) -> None:
    """A full pool of the node, which two filters refuse, and an empty one of another node, which one refuses."""
    limit = {"filter_function": "volume.size <= capabilities.maximum_volume_size_gb", "maximum_volume_size_gb": 1.0}
    elsewhere = {"node_name": "n2", "topology_labels": {"zone": "z2"}}
    pools = PoolTable(
        [
            Pool(name="h@b#n2", total=10.0, free=10.0, capabilities=elsewhere),
            Pool(name="h@b#n1", total=10.0, free=1.0, capabilities={**accessible, **limit}),
        ]
    )
    segment = {"requisite": [{"segments": {"zone": "z1"}}]}
    hints = {"accessibility_requirements": segment} if "topology_labels" in accessible else {"node_name": "n1"}
    request = Request("r", 8, hints=hints)
    conf = SimpleNamespace(over_provisioning_calculation=Calculation.CINDER)
    for filters in (
        [CapacityFilter(conf), TopologyFilter(conf), DriverFilter(conf)],
        [DriverFilter(conf), TopologyFilter(conf), CapacityFilter(conf)],
    ):
        chain = FilterChain(filters)
        refusal = chain.refusal(pools, request, chain.run(pools, request))
        assert refusal.nearest is not None
        assert (refusal.nearest.pool, refusal.nearest.filter) == ("h@b#n1", filters[0].name)
