# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.extensions.announcements import payloads, threshold_crossings
from tonnage.extensions.announcements.options import Thresholds
from tonnage.extensions.announcements.threshold_crossings import Reason

THIN = {"total": 100.0, "free": 50.0, "ratio": 2.0, "thin": True}


def classify(
    calculation: Calculation = Calculation.CINDER, thresholds: Thresholds | None = None, **pools: dict[str, float]
) -> threshold_crossings.PoolStates:
    table = PoolTable(Pool(name=name, **figures) for name, figures in pools.items())  # type: ignore[arg-type]
    chosen = thresholds or Thresholds()
    return threshold_crossings.classify(table.names, table, payloads.provisioned(table), calculation, chosen)


def test_each_pool_is_classified_on_its_own() -> None:
    found = classify(
        fine=THIN,
        full={**THIN, "free": 9.99},
        both={**THIN, "free": 0.0, "provisioned": 200.01},
        over={**THIN, "provisioned": 201.0},
        near={**THIN, "free": 14.0},
        nearly_over={**THIN, "provisioned": 191.0},
        at_both_limits={**THIN, "free": 10.0, "provisioned": 200.0},
        low={**THIN, "free": 15.0, "provisioned": 190.0},
    )
    assert found.exceeded == {
        "full": (Reason.PHYSICAL,),
        "both": (Reason.PHYSICAL, Reason.PROVISIONED),
        "over": (Reason.PROVISIONED,),
    }
    assert found.in_hysteresis == {"near", "nearly_over", "at_both_limits"}


def test_the_reserve_limits_provisioning_by_the_standard_calculation() -> None:
    pool = {**THIN, "provisioned": 190.0, "reserved_percentage": 10.0}
    assert classify(Calculation.CINDER, p=pool).exceeded == {}
    assert classify(Calculation.STANDARD, p=pool).exceeded == {"p": (Reason.PROVISIONED,)}


def test_the_reserve_of_a_pool_without_thin_volumes_is_not_promised() -> None:
    pool = {"total": 100.0, "free": 50.0, "reserved_percentage": 10.0, "thick": True, "ratio": 2.0}
    found = classify(over={**pool, "provisioned": 91.0}, near={**pool, "provisioned": 90.0})
    assert (found.exceeded, found.in_hysteresis) == ({"over": (Reason.PROVISIONED,)}, {"near"})


@pytest.mark.parametrize("unknown", [math.nan, math.inf])
def test_unknown_figures_exceed_no_threshold(unknown: float) -> None:
    found = classify(
        free={**THIN, "free": unknown},
        total={**THIN, "total": unknown, "provisioned": 1e9},
        thick={"total": unknown, "free": unknown, "provisioned": 1e9},
        over={**THIN, "free": unknown, "provisioned": 201.0},
        empty={"total": 0.0, "free": 0.0},
    )
    assert found.exceeded == {"over": (Reason.PROVISIONED,)}
    assert found.in_hysteresis == frozenset()


def test_with_100_percent_only_provisioned_capacity_counts() -> None:
    found = classify(thresholds=Thresholds(100.0, 5.0), p={**THIN, "free": 0.0})
    assert (found.exceeded, found.in_hysteresis) == ({}, {"p"})


def test_thousands_of_pools_are_classified_as_columns() -> None:
    total = np.full(10_000, 100.0)
    table = PoolTable()
    table.put_columns([f"p{number}" for number in range(10_000)], {"total": total, "free": np.arange(10_000) % 100})
    found = threshold_crossings.classify(
        table.names, table, payloads.provisioned(table), Calculation.CINDER, Thresholds()
    )
    assert len(found.exceeded) == 1000
    assert len(found.in_hysteresis) == 500
