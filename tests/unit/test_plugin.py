# SPDX-License-Identifier: Apache-2.0
"""The base classes of plug-ins, and plug-ins that use the former names of their contract."""

import functools
import logging
from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tonnage import plugin
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.reports import validation
from tonnage.capacity.request import Request
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.base import Filter, Mask, PoolFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.weighers.base import PoolWeigher, Weigher
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain

POOLS = PoolTable(
    Pool(name=f"h@b#{name}", total=10.0, free=free, availability_zone="north")
    for name, free in (("full", 0.0), ("empty", 10.0))
)
CONF = SimpleNamespace(over_provisioning_calculation=Calculation.CINDER, capacity_weight_multiplier=1.0)


class FormerFilter(AvailabilityZoneFilter):
    """A filter that defines and calls the former names only."""

    looks_at_figures = False
    judges_kind = True
    request_fields = ("size_gb",)

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.keys: list[tuple[Hashable, ...]] = []

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        return super().accepts(pools, request) & (request.size_gb % 2 == 0)

    def kept_by(self, request: Request) -> tuple[Hashable, ...]:
        self.keys.append((*super().kept_by(request), request.size_gb))  # type: ignore[misc]
        return self.keys[-1]

    def judged_by(self, calculation: Calculation) -> "FormerFilter":
        other: FormerFilter = super().judged_by(calculation)  # type: ignore[misc]
        other.keys = [("judged", calculation)]
        return other


class FormerWeigher(CapacityWeigher):
    """A weigher that defines and calls the former name only."""

    judged = False

    def judged_by(self, calculation: Calculation) -> "FormerWeigher":
        other: FormerWeigher = super().judged_by(calculation)  # type: ignore[misc]
        other.judged = True
        return other


def test_a_filter_with_former_names_is_cached_and_declares_its_verdicts() -> None:
    former = FormerFilter(CONF)
    chain = FilterChain([former])
    assert chain.candidates(POOLS, Request("r", 2)).tolist() == [True, True]
    assert chain.candidates(POOLS, Request("r", 3)).tolist() == [False, False]
    assert former.keys == [(*AvailabilityZoneFilter(CONF).cache_key(Request("r", size)), size) for size in (2, 3)]
    assert (former.reads_figures, former.is_categorical, former.trigger_fields) == (False, True, ("size_gb",))


def test_a_filter_with_former_names_gets_another_calculation() -> None:
    [copied] = FilterChain([FormerFilter(CONF)]).with_calculation(Calculation.STANDARD).filters
    assert isinstance(copied, FormerFilter)
    assert copied.keys == [("judged", Calculation.STANDARD)]
    assert copied.conf.over_provisioning_calculation is Calculation.STANDARD


def test_a_weigher_with_former_names_gets_another_calculation() -> None:
    [copied] = WeigherChain([FormerWeigher(CONF)]).with_calculation(Calculation.STANDARD).weighers
    assert isinstance(copied, FormerWeigher)
    assert copied.judged
    assert copied.conf.over_provisioning_calculation is Calculation.STANDARD


@pytest.mark.parametrize(
    ("plugin_class", "former", "present"),
    [
        (plugin_class, former, present)
        for plugin_class in (Filter, PoolFilter, CapacityFilter, AvailabilityZoneFilter, Weigher, PoolWeigher)
        for former, present in plugin_class.former_names.items()
    ],
)
def test_a_former_name_of_a_shipped_class_can_be_read(plugin_class: type, former: str, present: str) -> None:
    assert getattr(plugin_class, former) is getattr(plugin_class, present)


def test_a_class_may_override_one_name_of_a_class_with_the_other() -> None:
    class Present(FormerFilter):
        reads_figures = True

        def cache_key(self, request: Request) -> tuple[Hashable, ...]:
            return (*super().cache_key(request), "present")  # type: ignore[misc]

    class FormerAgain(Present):
        looks_at_figures = False

        def kept_by(self, request: Request) -> tuple[Hashable, ...]:
            return (*super().kept_by(request), "former")

    shipped = AvailabilityZoneFilter(CONF).cache_key(Request("r", 2))
    assert Present(CONF).kept_by(Request("r", 2)) == (*shipped, 2, "present")
    assert FormerAgain(CONF).cache_key(Request("r", 2)) == (*shipped, 2, "present", "former")
    assert (FormerFilter.reads_figures, Present.looks_at_figures, FormerAgain.reads_figures) == (False, True, False)


def test_a_class_may_have_both_names_for_both_releases() -> None:
    class Both(CapacityFilter):
        judges_kind = is_categorical = True

        def cache_key(self, request: Request) -> tuple[Hashable, ...]:
            return ("both",)

        kept_by = cache_key

    assert Both(CONF).cache_key(Request("r", 1)) == Both(CONF).kept_by(Request("r", 1)) == ("both",)
    assert Both.is_categorical


def test_former_names_of_a_class_that_is_not_a_plug_in_count() -> None:
    class Cached:
        looks_at_figures = False

        def kept_by(self, request: Request) -> tuple[Hashable, ...]:
            return (request.size_gb,)

    class Mixed(Cached, CapacityFilter):
        pass

    assert Mixed(CONF).cache_key(Request("r", 7)) == (7,)
    assert not Mixed.reads_figures


def test_a_subclass_with_other_verdicts_inherits_no_promise_under_either_name() -> None:
    class Other(FormerFilter):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            return pools.free > 0

    assert Other(CONF).cache_key(Request("r", 2)) is None
    for former, present, default in (
        ("looks_at_figures", "reads_figures", True),
        ("judges_kind", "is_categorical", False),
        ("request_fields", "trigger_fields", None),
    ):
        assert getattr(Other, former) is getattr(Other, present) is default
    assert FilterChain([Other(CONF)]).candidates(POOLS, Request("r", 3)).tolist() == [False, True]


@pytest.mark.parametrize(
    "result", [None, [1.0, 2.0], np.zeros(3), np.zeros(2, dtype=np.int64), np.ma.zeros(2), np.zeros((2, 1))]
)
def test_a_column_has_one_element_of_the_right_type_for_each_row(result: object) -> None:
    with pytest.raises(TypeError, match=r"^returned an? .*, expected an array of 2 numbers$"):
        plugin.checked_column(result, 2, "f", "numbers")


def test_a_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger(__name__)
    log_failure = functools.partial(plugin.log_failure, log, "Plug-in %s failed: %s")
    for failure in ("boom", "boom", "another"):
        log_failure("Mine", failure)
    assert caplog.messages == ["Plug-in Mine failed: boom", "Plug-in Mine failed: another"]


@pytest.mark.parametrize(
    "change",
    [
        lambda pools: pools.names.clear(),
        lambda pools: pools.zones.__setitem__(0, "south"),
        lambda pools: pools.capabilities.append({}),
        lambda pools: pools.capabilities[0].update(media="ssd"),
        lambda pools: pools.free.fill(1000.0),
        lambda pools: pools.thin.__setitem__(0, True),
    ],
    ids=["names", "zones", "list of capabilities", "capabilities of a pool", "figures", "flags"],
)
def test_a_plugin_that_changes_the_table_fails_and_the_table_stays(change: Callable[[PoolTable], object]) -> None:
    capabilities = validation.validate([{"pool_name": "full", "media": "hdd"}]).pools[0].capabilities
    pools = PoolTable(
        [Pool(name="h@b#full", total=10.0, free=1.0, availability_zone="north", capabilities=capabilities)]
    )

    class Vandal(Filter):
        def accepts(self, pools: PoolTable, request: Request) -> Mask:
            change(pools)
            return np.ones(len(pools), dtype=np.bool_)

    before = repr(list(pools))
    result = FilterChain([Vandal(CONF)]).run(pools, Request("r", 1))
    assert list(result.failures) == [0]
    assert repr(list(pools)) == before
    assert (pools.names, pools.index("h@b#full")) == (("h@b#full",), 0)
