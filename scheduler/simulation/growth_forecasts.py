# SPDX-License-Identifier: Apache-2.0
"""Forecasts of the growth of pools, which extensions make for others: neither imports the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGrowth:
    """The upper range of the growth of a pool in the next 14 days, in GiB; None where there is no forecast.

    ``physical_gb`` are written, and ``promised_gb`` promised. Pools that report the figures of one whole storage each
    have its growth.
    """

    physical_gb: float | None
    promised_gb: float | None


#: Returns the growth of all pools that have a forecast, by the names of the pools. Raises
#: :class:`~tonnage.capacity.errors.Unavailable` while the ledger is away.
GrowthForecast: TypeAlias = Callable[[], Mapping[str, PoolGrowth]]


class GrowthForecasts:
    """Reads the forecasts of all enabled extensions."""

    def __init__(self) -> None:
        self.sources: list[GrowthForecast] = []

    def read(self) -> Mapping[str, PoolGrowth] | None:
        """Return the growth of pools by their names; None if no enabled extension makes forecasts."""
        if not self.sources:
            return None
        return {pool: growth for source in self.sources for pool, growth in source().items()}
