# SPDX-License-Identifier: Apache-2.0
"""The time until a capacity reaches its limit: a range, or the reason why there is none."""

import math
from dataclasses import dataclass

from tonnage.extensions.history.forecast import growth_paths
from tonnage.extensions.history.forecast.growth_paths import HORIZON, LEAST_HISTORY, Floats

PHYSICAL, PROMISED = "physical", "promised"

#: The two limits of a pool, each with its own forecast: of the used space, and of the provisioned capacity.
BOUNDS = (PHYSICAL, PROMISED)

#: The days after which the growth is compared with the forecast.
CHECKED_DAYS = 14

_SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class TimeToFull:
    """The days until the limit: with a probability of 80 % they are between ``p10`` and ``p90``.

    ``inf`` is more than :data:`~tonnage.extensions.history.forecast.growth_paths.HORIZON`. With the same probability
    the growth of the next :data:`CHECKED_DAYS` is between ``low_gb`` and ``high_gb``.
    """

    p10: float
    p50: float
    p90: float
    low_gb: float
    high_gb: float


@dataclass(frozen=True, slots=True)
class BoundForecast:
    """The forecast for one bound of a pool; without a ``time_to_full`` if the ``known_days`` of history are too few.

    With ``is_full`` the figures of now leave no room, whatever the history says.
    """

    bound: str
    known_days: int
    time_to_full: TimeToFull | None
    is_full: bool = False

    @property
    def days(self) -> tuple[float, float, float]:
        """The days until the limit with 10, 50 and 90 %: 0 of a full pool, ``inf`` beyond the horizon or if unknown."""
        if self.is_full:
            return (0.0, 0.0, 0.0)
        time_to_full = self.time_to_full
        return (math.inf,) * 3 if time_to_full is None else (time_to_full.p10, time_to_full.p50, time_to_full.p90)

    def text(self) -> str:
        """Return the forecast in words."""
        if self.is_full:
            return "full"
        time_to_full = self.time_to_full
        if time_to_full is None:
            return f"no forecast: {self.known_days} of {LEAST_HISTORY} days of history"
        if not math.isfinite(time_to_full.p10):
            return f"not within {HORIZON} days"
        if time_to_full.p90 == 0:
            return "full"
        if time_to_full.p90 <= 1:
            return "full within a day (80 %)"
        first = math.floor(time_to_full.p10)
        last = (
            f"{max(math.ceil(time_to_full.p90), first + 1)}"
            if math.isfinite(time_to_full.p90)
            else f"more than {HORIZON}"
        )
        return f"full in {first} to {last} days (80 %)"


def forecast(bound: str, growth: Floats, room_gb: float) -> BoundForecast:
    """Return the forecast for a bound.

    ``growth`` is that of each past day, as :func:`~tonnage.extensions.history.forecast.growth.daily_growth` returns it,
    and ``room_gb`` the remaining capacity, ``inf`` without a limit. Both are GiB.
    """
    known_days = growth_paths.known_days(growth)
    paths = growth_paths.extrapolate(growth)
    if paths is None:
        return BoundForecast(bound, known_days, None)
    low, high = paths.quantiles(CHECKED_DAYS, (_SHARES[0], _SHARES[-1]))
    p10, p50, p90 = paths.days_to_full(room_gb, _SHARES)
    return BoundForecast(bound, known_days, TimeToFull(p10, p50, p90, low, high))
