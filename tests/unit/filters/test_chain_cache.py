# SPDX-License-Identifier: Apache-2.0
"""Stateful tests that compare cached candidates and rankings with a simple evaluation of each pool."""

import dataclasses
import logging
import uuid
from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.unit.capacity import strategies
from tests.unit.capacity.pools.test_pool_table import NAMES
from tonnage.capacity import arithmetic
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.capability_values import MISSING
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Provisioning, Request, judged_thin
from tonnage.filters import extra_specs
from tonnage.filters.affinity import DifferentBackendFilter, SameBackendFilter
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.base import Filter, Mask, PoolFilter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain


class UncachedFilter(PoolFilter):
    """A third-party filter that evaluates single pools and has no cache."""

    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        return request.size_gb % 5 != 0 or pool.free % 2 == 1


class CachedNameFilter(PoolFilter):
    """A third-party filter with cached verdicts."""

    def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
        return (request.project_id,)

    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        return not request.project_id or len(pool.name) == len("host@backend#10")


POOLS = st.builds(
    lambda pool, name, **changes: dataclasses.replace(pool, name=name, **changes),
    strategies.pools(),
    NAMES,
    allocated=st.integers(0, 50).map(float),
    claimed=st.integers(0, 50).map(float),
    storage_id=st.sampled_from([None, None, "array"]),
    storage_free=st.sampled_from([np.nan, 100.0]),
    up=st.sampled_from([True, True, True, False]),
    enabled=st.sampled_from([True, True, True, False]),
    expired=st.sampled_from([False, False, False, True]),
    availability_zone=st.sampled_from(["", "a", "b"]),
    capabilities=st.fixed_dictionaries(
        {},
        optional={
            "media": st.sampled_from(["ssd", "hdd", ["ssd", "nvme"], True, 1, 1.0, None]),
            "qos": st.sampled_from([{"iops": 100}, {"iops": "100"}, {"iops": [True, 50]}, "none"]),
            "compression": st.sampled_from([True, False, "yes", 1, 1.0]),
        },
    ),
)
SPECS = st.dictionaries(
    st.sampled_from(
        [
            "media",
            "capabilities:media",
            "capabilities:qos:iops",
            "compression",
            "vendor:media",
            "pool_name",
            "thin_provisioning_support",
            "thick_provisioning_support",
            "capabilities:free_capacity_gb",
        ]
    ),
    st.sampled_from(["ssd", "<in> s", "<is> True", "<is> False", ">= 50", "== 1", "s!= hdd", "<or> 1 <or> ssd", "1"]),
    max_size=3,
)
BACKENDS = st.sampled_from([None, None, None, frozenset({"host@backend"}), frozenset({"host@other"}), frozenset()])
REQUESTS = st.builds(
    Request,
    request_id=st.uuids().map(str),
    size_gb=st.one_of(st.integers(0, 60), strategies.SIZES),
    provisioning=st.sampled_from([None, Provisioning.THIN, Provisioning.THICK]),
    extra_specs=SPECS,
    project_id=st.sampled_from(["", "p"]),
    availability_zone=st.sampled_from([None, "", "a", "nowhere"]),
    pool=st.one_of(st.none(), st.none(), st.none(), NAMES),
    backend=st.sampled_from([None, None, "host@backend", "host@other"]),
    attempted=st.frozensets(NAMES, max_size=1),
    same_backends=BACKENDS,
    different_backends=BACKENDS,
)


def _value(pool: Pool, key: str) -> Any:
    """Return the value that a pool reports under one of the extra-spec keys above."""
    path = key.removeprefix("capabilities:").split(":")
    special = {
        "pool_name": pool.name.rpartition("#")[2],
        "thin_provisioning_support": pool.thin,
        "thick_provisioning_support": pool.thick,
        "free_capacity_gb": "unknown" if np.isnan(pool.free) else "infinite" if np.isinf(pool.free) else pool.free,
    }
    value: Any = {**pool.capabilities, **special}
    for step in path:
        value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
    return value


def accepted(pool: Pool, request: Request, calculation: Calculation, uncached: bool, figures: bool = True) -> bool:
    """Return the expected verdict of all filters below, or without ``figures`` of the filters that read no figures."""
    wanted = {key: spec for key, spec in request.extra_specs.items() if not key.startswith("vendor:")}
    thin = bool(judged_thin(pool.thin, pool.thick, request.provisioning))
    return all(
        (
            request.pool in (None, pool.name),
            request.pool is not None or request.backend in (None, pool.backend),
            pool.up and pool.enabled and not pool.expired and pool.name not in request.attempted,
            not request.availability_zone or pool.availability_zone == request.availability_zone,
            not figures or arithmetic.admits(pool, request.size_gb, thin, calculation),
            all(
                (value := _value(pool, key)) is not MISSING and extra_specs.compiled(spec)(value)
                for key, spec in wanted.items()
            ),
            request.same_backends is None or pool.backend in request.same_backends,
            request.different_backends is None or pool.backend not in request.different_backends,
            not uncached or request.size_gb % 5 != 0 or pool.free % 2 == 1,
            not request.project_id or len(pool.name) == len("host@backend#10"),
        )
    )


class Decisions(RuleBasedStateMachine):
    """Random requests between random changes of the table."""

    calculation = Calculation.CINDER
    multiplier = 1.0

    #: Whether the chain has a filter without a cache.
    uncached = True

    def __init__(self) -> None:
        super().__init__()
        conf = SimpleNamespace(
            over_provisioning_calculation=self.calculation, capacity_weight_multiplier=self.multiplier
        )
        self.filters = FilterChain(
            [
                BackendStateFilter(60.0),
                AvailabilityZoneFilter(conf),
                CapacityFilter(conf),
                *([UncachedFilter(conf)] if self.uncached else []),
                CapabilitiesFilter(conf),
                SameBackendFilter(conf),
                DifferentBackendFilter(conf),
                CachedNameFilter(conf),
            ],
            self.calculation,
        )
        self.weighers = WeigherChain([CapacityWeigher(conf)])
        self.table = PoolTable()
        self.requests: list[Request] = []

    @rule(pools=st.lists(POOLS, min_size=1, max_size=12))
    def put(self, pools: list[Pool]) -> None:
        self.table.put_all(pools)

    @rule(name=NAMES, size=st.integers(-9, 20), physical=st.integers(-9, 20))
    def claim(self, name: str, size: int, physical: int) -> None:
        index = self.table.index(name)
        if index is not None:
            self.table.claim(index, size, physical)

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.table.remove(name)

    @rule(request=REQUESTS)
    def decide(self, request: Request) -> None:
        self.requests.append(request)
        self._decide(request)

    @rule(place=st.integers(0, 100), size=st.integers(0, 50))
    def decide_a_known_kind_of_request(self, place: int, size: int) -> None:
        if self.requests:
            request = self.requests[place % len(self.requests)]
            self._decide(dataclasses.replace(request, request_id=uuid.uuid4().hex, size_gb=size))

    def _decide(self, request: Request) -> None:
        pools = list(self.table)
        expected = [accepted(pool, request, self.calculation, self.uncached) for pool in pools]
        found = self.filters.candidates(self.table, request)
        assert found.tolist() == expected
        uses_figures = any(key.endswith("free_capacity_gb") for key in request.extra_specs)
        steady = dataclasses.replace(request, extra_specs={} if uses_figures else request.extra_specs)
        eligible = [accepted(pool, steady, self.calculation, uncached=False, figures=False) for pool in pools]
        assert self.filters.eligible(self.table, request).tolist() == eligible
        assert self.filters.run(self.table, request).remaining.tolist() == expected
        index = self.weighers.rank(self.table, request, found)
        order = self.weighers.order(PoolTable(pools), request, np.array(expected, dtype=np.bool_))
        assert index == (order[0] if len(order) else None)
        if index is not None:
            self.table.claim(index, request.size_gb, 0)


class StandardDecisions(Decisions):
    calculation = Calculation.STANDARD


class CachedDecisions(Decisions):
    """Most decisions are lookups in the cache."""

    uncached = False


class FullPoolDecisions(CachedDecisions):
    """The best pool is full most of the time."""

    multiplier = -3.0


TestDecisions = Decisions.TestCase
TestStandardDecisions = StandardDecisions.TestCase
TestCachedDecisions = CachedDecisions.TestCase
TestFullPoolDecisions = FullPoolDecisions.TestCase
TestDecisions.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
for case in (TestStandardDecisions, TestCachedDecisions, TestFullPoolDecisions):
    case.settings = settings(max_examples=10, stateful_step_count=25, deadline=None)
del case  # pytest would run the last one twice


class CachedFilter(Filter):
    """A filter with cached verdicts that records the number of pools in each call."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace())
        self.asked: list[int] = []

    def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
        return (request.project_id,)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        self.asked.append(len(pools))
        return np.array([pool.availability_zone != request.project_id for pool in pools], dtype=np.bool_)


def test_verdicts_are_cached_until_a_trait_changes() -> None:
    pools = PoolTable(Pool(name=f"h@b#{i}", total=1.0, free=1.0) for i in range(100))
    plugin = CachedFilter()
    chain = FilterChain([plugin])
    for number in range(3):
        assert chain.candidates(pools, Request(f"r{number}", number, project_id="p")).all()
        pools.claim(3, 1, 1)
    assert plugin.asked == [100]
    pools.put(Pool(name="h@b#5", total=1.0, free=1.0, availability_zone="p"))
    pools.put(Pool(name="h@b#new", total=1.0, free=1.0))
    assert chain.candidates(pools, Request("r", 1, project_id="p")).sum() == 100
    assert plugin.asked == [100, 2]
    assert chain.candidates(pools, Request("r", 1, project_id="q")).all()
    assert plugin.asked == [100, 2, 101]


def test_a_filter_is_called_only_for_requests_with_a_field_that_it_names() -> None:
    class Zones(CachedFilter):
        trigger_fields = ("availability_zone", "same_backends")

    pools = PoolTable([Pool(name="h@b#p", total=1.0, free=1.0, availability_zone="p")])
    plugin = Zones()
    chain = FilterChain([plugin])
    assert chain.candidates(pools, Request("r", 1, project_id="p")).all()
    assert plugin.asked == []
    assert not chain.candidates(pools, Request("r", 1, project_id="p", availability_zone="nova")).any()
    # No backend is another value than no hint.
    assert not chain.candidates(pools, Request("r", 1, project_id="p", same_backends=frozenset())).any()
    assert plugin.asked == [1]


def test_a_subclass_with_other_verdicts_is_called_for_every_request() -> None:
    class Zones(CachedFilter):
        trigger_fields = ("availability_zone",)

    class Others(Zones):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return np.zeros(len(pools), dtype=np.bool_)

    pools = PoolTable([Pool(name="h@b#p", total=1.0, free=1.0)])
    assert not FilterChain([Others()]).candidates(pools, Request("r", 1)).any()


def test_each_chain_has_its_own_cache() -> None:
    class Nothing(CachedFilter):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return np.zeros(len(pools), dtype=np.bool_)

    pools, request = PoolTable([Pool(name="h@b#p", total=1.0, free=1.0)]), Request("r", 1, project_id="p")
    assert FilterChain([CachedFilter()]).candidates(pools, request).any()
    assert not FilterChain([Nothing()]).candidates(pools, request).any()


@pytest.mark.parametrize("fault", ["accepts", "cache_key", "unhashable"])
def test_a_cached_filter_that_fails_refuses_every_pool_until_it_recovers(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(CachedFilter):
        name = f"Broken{uuid.uuid4().hex}"
        broken = True

        def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
            if self.broken and fault == "cache_key":
                raise LookupError("no key")
            return ([],) if fault == "unhashable" else ()  # type: ignore[return-value]

        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            if self.broken:
                raise ValueError("boom")
            return np.ones(len(pools), dtype=np.bool_)

    pools, request = PoolTable([Pool(name="h@b#p", total=1.0, free=1.0)]), Request("r", 1, project_id="p")
    plugin = Broken()
    chain = FilterChain([CachedFilter(), plugin])
    for _ in range(2):
        assert not chain.candidates(pools, request).any()
        assert chain.eligible(pools, request).all()
    assert f"{plugin.name} refused 1" in chain.refusal(pools, request, chain.run(pools, request)).message
    assert [record.levelno for record in caplog.records if plugin.name in record.getMessage()] == [logging.ERROR]
    plugin.broken = False
    assert chain.candidates(pools, request).all()


def test_a_subclass_that_overrides_the_verdicts_is_asked_for_every_decision() -> None:
    class Overriding(CachedFilter):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return super().accepts(pools, request) & (pools.free > 1)

    class Unchanged(Overriding):
        """Overrides none of it."""

    class CachedAgain(Overriding):
        def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
            return ()

    pools = PoolTable(Pool(name=f"h@b#{i}", total=1.0, free=float(i)) for i in range(4))
    for plugin in (Overriding(), Unchanged()):
        for _ in range(2):
            assert FilterChain([plugin]).candidates(pools, Request("r", 1, project_id="p")).tolist() == [
                False,
                False,
                True,
                True,
            ]
        assert plugin.asked == [4, 4]
    cached_again = CachedAgain()
    chain = FilterChain([cached_again])
    for _ in range(2):
        assert chain.candidates(pools, Request("r", 1, project_id="p")).any()
    assert cached_again.asked == [4]
