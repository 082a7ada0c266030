# SPDX-License-Identifier: Apache-2.0
"""The texts of refusals."""

from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal, Rejection


def test_every_filter_that_refused_is_named_and_the_nearest_miss_is_at_its_filter() -> None:
    figures = "(total 1000, provisioned 1400, in flight 20, reserved 10 %, ratio 2.0, standard)"
    refusal = Refusal(
        request="500 GiB thin 'gold'",
        pools=3,
        outcomes=(
            FilterOutcome("AvailabilityZoneFilter", 1),
            FilterOutcome("CapacityFilter", 2),
            FilterOutcome("CapabilitiesFilter", 0),
        ),
        nearest=NearestMiss(
            "ssd1@lvm#gold", "CapacityFilter", Rejection("no_capacity", f"has headroom 380.00 GiB {figures}")
        ),
    )
    assert refusal.message == (
        "No pool for 500 GiB thin 'gold': 3 pools; AvailabilityZoneFilter refused 1; "
        "CapacityFilter refused 2, nearest ssd1@lvm#gold has headroom 380.00 GiB "
        "(total 1000, provisioned 1400, in flight 20, reserved 10 %, ratio 2.0, standard)"
    )


def test_the_refusal_of_the_only_pool_has_its_reason() -> None:
    assert Refusal("1 GiB", 1, (FilterOutcome("F", 1),)).message == "No pool for 1 GiB: 1 pool; F refused 1"


def test_the_refusal_without_any_pool_has_its_own_text() -> None:
    assert Refusal("1 GiB", 0).message == "No pool for 1 GiB: no backend reports a pool at present"


def test_the_refusal_names_a_required_pool_that_has_not_been_reported() -> None:
    assert Refusal("1 GiB", 0, pool="h@b#p").message == "No pool for 1 GiB: h@b#p is not reported at present"
