# SPDX-License-Identifier: Apache-2.0
"""The quota left for the requests of one transaction."""

from dataclasses import replace

import pytest

from tonnage.capacity.decision import Excess
from tonnage.quotas import quota_check
from tonnage.quotas.limits import Holder, Item, LimitOwner, Limits, Resource, Scope
from tonnage.quotas.quota_check import Demand, QuotaBudget, QuotaChanged, ReservedQuota, Usage

PROJECT, USER = LimitOwner(Holder.PROJECT, "p"), LimitOwner(Holder.PROJECT, "p", "u")
VOLUMES, GIGABYTES = Item(Resource.VOLUMES), Item(Resource.GIGABYTES)
FAST = Item(Resource.GIGABYTES, "t")


def demand(size: int, kind: str = "") -> Demand:
    return Demand(
        project_id="p",
        user_id="u",
        takes=Usage(1, size),
        size_gb=size,
        volume_type_id=kind,
        volume_type="fast" if kind else "",
    )


def budget_of(rows: dict[LimitOwner, dict[Item, int]], used: dict[Scope, Usage]) -> QuotaBudget:
    return QuotaBudget(ReservedQuota(Limits({}, rows), used))


def test_each_request_counts_for_the_next_ones() -> None:
    budget = budget_of({PROJECT: {GIGABYTES: 10}}, {Scope("p"): Usage(1, 3)})
    assert budget.excess([demand(7)]) is None
    budget.take([demand(4)])
    assert budget.excess([demand(3)]) is None
    assert budget.excess([demand(4)]) == Excess("gigabytes", 10, 7, 4)
    assert budget.taken == {Scope("p"): Usage(1, 4)}


def test_volumes_of_one_request_count_together() -> None:
    budget = budget_of({PROJECT: {VOLUMES: 3}}, {Scope("p"): Usage(1, 0)})
    assert budget.excess([demand(1), demand(1)]) is None
    assert budget.excess([demand(1)] * 3) == Excess("volumes", 3, 3, 1)
    assert budget.taken == {}


def test_an_extend_is_not_refused_for_too_many_volumes() -> None:
    growth = replace(demand(5), takes=Usage(0, 2))
    budget = budget_of({PROJECT: {VOLUMES: 1, GIGABYTES: 10}}, {Scope("p"): Usage(4, 8)})
    assert budget.excess([growth]) is None
    assert budget.excess([demand(1)]) == Excess("volumes", 1, 4, 1)


def test_a_retype_counts_for_the_new_type_only() -> None:
    retype = replace(demand(5, "t"), new=False, size_gb=0)
    budget = budget_of({PROJECT: {VOLUMES: 0, GIGABYTES: 0, FAST: 9}}, {Scope("p", "", "t"): Usage(1, 4)})
    assert budget.excess([retype]) is None
    budget.take([retype])
    assert budget.excess([retype]) == Excess("gigabytes_fast", 9, 9, 5)


def test_the_size_of_a_single_volume_is_limited() -> None:
    budget = budget_of({PROJECT: {Item(Resource.PER_VOLUME_GIGABYTES): 4}}, {})
    assert budget.excess([demand(4)]) is None
    found = budget.excess([demand(5)])
    assert found == Excess("per_volume_gigabytes", 4, 0, 5)
    assert found.sentence == (
        "VolumeSizeExceedsLimit: Requested volume size 5G is larger than maximum allowed limit 4G."
    )


def test_a_users_limit_and_the_projects_limit_both_apply() -> None:
    budget = budget_of(
        {PROJECT: {GIGABYTES: 10}, USER: {GIGABYTES: 20}}, {Scope("p"): Usage(0, 6), Scope("p", "u"): Usage(0, 16)}
    )
    assert budget.excess([demand(4)]) is None
    assert budget.excess([demand(5)]) == Excess("gigabytes", 10, 6, 5)


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
def test_only_limited_scopes_are_read(limited: dict[LimitOwner, dict[Item, int]], scopes: set[Scope]) -> None:
    assert quota_check.limited_demands(Limits({}, limited), [demand(1, "t")]).keys() == scopes


def test_a_scope_whose_usage_was_not_read_raises_quota_taken() -> None:
    with pytest.raises(QuotaChanged):
        budget_of({PROJECT: {VOLUMES: 5}}, {}).excess([demand(1)])
