# SPDX-License-Identifier: Apache-2.0
"""The figures of reports of Cinder's drivers in the ledger: limits, and figures that are no numbers."""

from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.extensions.cinder.scheduler import reported_figures
from tonnage.ledger.inventory.reports import PoolFigures

NAME = "host@backend#pool"


def state(**figures: Any) -> SimpleNamespace:
    """Return a pool as Cinder reads it from a report."""
    capabilities = {
        "total_capacity_gb": 100,
        "free_capacity_gb": 60,
        "provisioned_capacity_gb": 40,
        "reserved_percentage": 10,
        "max_over_subscription_ratio": 2.0,
        "thin_provisioning_support": True,
        "timestamp": object(),
        **figures,
    }
    return SimpleNamespace(capabilities=capabilities, **capabilities)


def of(pool: SimpleNamespace, *, bounded: bool = True) -> PoolFigures | None:
    """Return the figures of a pool; None if they are unusable."""
    usable, unusable = reported_figures.of_states({NAME: pool}, bounded=bounded)
    assert len(usable) + len(unusable) == 1
    return usable[0] if usable else None


def limits(pool: SimpleNamespace, *, bounded: bool = True) -> tuple[float | None, float | None]:
    figures = of(pool, bounded=bounded)
    assert figures is not None
    return figures.thin_limit_gb, figures.physical_limit_gb


def test_the_limits_are_those_of_cinders_arithmetic() -> None:
    assert limits(state()) == (180.0, 60.0)
    assert limits(state(thin_provisioning_support=False)) == (90.0, 60.0)
    assert limits(state(total_capacity_gb="100", free_capacity_gb="60", reserved_percentage="10")) == (180.0, 60.0)
    assert limits(state(free_capacity_gb=-5)) == (180.0, -5.0)


@pytest.mark.parametrize(
    "figures",
    [
        *({name: word} for name in ("total_capacity_gb", "free_capacity_gb") for word in ("infinite", "unknown", None)),
        {"total_capacity_gb": "unknown", "free_capacity_gb": "unknown"},
    ],
)
def test_a_capacity_without_a_number_is_no_limit(figures: dict[str, Any]) -> None:
    assert limits(state(**figures)) == (None, None)


def test_without_a_filter_of_capacities_there_is_no_limit() -> None:
    assert limits(state(), bounded=False) == (None, None)


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), float("-inf"), "nan", "much", [60], {}])
@pytest.mark.parametrize("name", ["total_capacity_gb", "free_capacity_gb", "provisioned_capacity_gb"])
def test_a_capacity_that_is_no_number_is_unusable(name: str, figure: Any) -> None:
    assert of(state(**{name: figure})) is None


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), 1e308, "auto", None])
def test_a_ratio_that_makes_no_finite_limit_is_unusable(figure: Any) -> None:
    assert of(state(max_over_subscription_ratio=figure)) is None


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), "much", None])
def test_a_reserve_that_is_no_number_is_unusable(figure: Any) -> None:
    assert of(state(reserved_percentage=figure)) is None


@pytest.mark.parametrize("name", ["free_capacity_gb", "provisioned_capacity_gb", "media"])
def test_null_is_kept_for_plug_ins(name: str) -> None:
    figures = of(state(**{name: None}))
    assert figures is not None
    assert isinstance(figures.stats, dict)
    assert figures.stats[name] is None
    assert "timestamp" not in figures.stats
