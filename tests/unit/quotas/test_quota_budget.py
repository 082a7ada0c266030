# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from tonnage.capacity.decision import Excess
from tonnage.quotas import quota_budget
from tonnage.quotas.limits import Holder, Item, Limits, Place, Resource, Scope
from tonnage.quotas.quota_budget import Allowance, Demand, QuotaTaken, Used

PROJECT, USER = Place(Holder.PROJECT, "p"), Place(Holder.PROJECT, "p", "u")
VOLUMES, GIGABYTES = Item(Resource.VOLUMES), Item(Resource.GIGABYTES)
FAST = Item(Resource.GIGABYTES, "t")


def create(size: int, kind: str = "") -> Demand:
    return Demand(
        project_id="p",
        user_id="u",
        takes=Used(1, size),
        size_gb=size,
        volume_type_id=kind,
        volume_type="fast" if kind else "",
    )


def given(rows: dict[Place, dict[Item, int]], used: dict[Scope, Used]) -> Allowance:
    return Allowance(Limits({}, rows), used)


def test_each_request_sees_what_those_before_it_took() -> None:
    may = given({PROJECT: {GIGABYTES: 10}}, {Scope("p"): Used(1, 3)})
    assert may.excess([create(7)]) is None
    may.take([create(4)])
    assert may.excess([create(3)]) is None
    assert may.excess([create(4)]) == Excess("gigabytes", 10, 7, 4)
    assert may.taken == {Scope("p"): Used(1, 4)}


def test_volumes_that_come_all_or_none_count_together() -> None:
    may = given({PROJECT: {VOLUMES: 3}}, {Scope("p"): Used(1, 0)})
    assert may.excess([create(1), create(1)]) is None
    assert may.excess([create(1)] * 3) == Excess("volumes", 3, 3, 1)
    assert may.taken == {}


def test_a_growth_does_not_mind_that_there_are_too_many_volumes() -> None:
    growth = replace(create(5), takes=Used(0, 2))
    may = given({PROJECT: {VOLUMES: 1, GIGABYTES: 10}}, {Scope("p"): Used(4, 8)})
    assert may.excess([growth]) is None
    assert may.excess([create(1)]) == Excess("volumes", 1, 4, 1)


def test_a_new_type_counts_for_the_type_alone() -> None:
    retype = replace(create(5, "t"), new=False, size_gb=0)
    may = given({PROJECT: {VOLUMES: 0, GIGABYTES: 0, FAST: 9}}, {Scope("p", "", "t"): Used(1, 4)})
    assert may.excess([retype]) is None
    may.take([retype])
    assert may.excess([retype]) == Excess("gigabytes_fast", 9, 9, 5)


def test_the_size_of_one_volume_has_a_limit_of_its_own() -> None:
    may = given({PROJECT: {Item(Resource.PER_VOLUME_GIGABYTES): 4}}, {})
    assert may.excess([create(4)]) is None
    found = may.excess([create(5)])
    assert found == Excess("per_volume_gigabytes", 4, 0, 5)
    assert found.sentence == (
        "VolumeSizeExceedsLimit: Requested volume size 5G is larger than maximum allowed limit 4G."
    )


def test_a_limit_of_one_user_stands_beside_that_of_the_project() -> None:
    may = given(
        {PROJECT: {GIGABYTES: 10}, USER: {GIGABYTES: 20}}, {Scope("p"): Used(0, 6), Scope("p", "u"): Used(0, 16)}
    )
    assert may.excess([create(4)]) is None
    assert may.excess([create(5)]) == Excess("gigabytes", 10, 6, 5)


@pytest.mark.parametrize(
    ("limited", "scopes"),
    [
        ({}, set()),
        ({PROJECT: {VOLUMES: -1, GIGABYTES: -1}}, set()),
        ({PROJECT: {VOLUMES: 0}}, {Scope("p")}),
        ({PROJECT: {FAST: 5}}, {Scope("p", "", "t")}),
        ({USER: {GIGABYTES: 5}}, {Scope("p", "u")}),
    ],
)
def test_only_what_is_limited_is_looked_at(limited: dict[Place, dict[Item, int]], scopes: set[Scope]) -> None:
    assert quota_budget.binding(Limits({}, limited), [create(1, "t")]).keys() == scopes


def test_what_was_not_looked_at_is_not_guessed() -> None:
    with pytest.raises(QuotaTaken):
        given({PROJECT: {VOLUMES: 5}}, {}).excess([create(1)])
