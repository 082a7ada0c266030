# SPDX-License-Identifier: Apache-2.0
"""Response bodies with the history of pools, forecasts, and refusals to come. Capacities are GiB."""

from msgspec import Struct


class PoolForecast(Struct, kw_only=True):
    """The forecast for one bound of a pool, ``physical`` or ``promised``, see ``tonnage forecast``.

    ``text`` says it in words. With a probability of 80 % the pool is full in ``p10_days`` to ``p90_days`` days, and
    grows by ``low_gb`` to ``high_gb`` in ``growth_days`` days; null is more than the horizon or, if ``low_gb`` is null
    too, that there is no forecast. ``hit_rate`` is the share of the ``checked`` earlier forecasts that held the growth.
    """

    pool: str
    bound: str
    made_on: str
    text: str
    p10_days: float | None
    p50_days: float | None
    p90_days: float | None
    low_gb: float | None
    high_gb: float | None
    growth_days: int
    hit_rate: float | None
    checked: int


class ForecastOverview(Struct, kw_only=True):
    """The first of ``count`` forecasts; the soonest comes first."""

    count: int
    forecasts: list[PoolForecast]


class WantedVolumes(Struct, kw_only=True):
    """A number of volumes of one size and type; an empty type stands for volumes without a type."""

    volume_type: str
    size_gb: int
    number: int


class TypeRefusals(Struct, kw_only=True):
    """The simulated future of a volume type, see ``tonnage forecast --refusals``.

    It was refused in ``refused_runs`` of ``runs``, most often by ``filter`` first; ``text`` says it in words.
    ``message`` is the reason of one of these refusals, and ``requests`` are the requests of that run up to the refused
    one. Volumes without a type have an empty name.
    """

    volume_type: str
    text: str
    known_days: int
    runs: int
    refused_runs: int
    filter: str | None
    message: str | None
    requests: list[WantedVolumes]
    made_at: str


class ComingRefusals(Struct):
    """The refusals to come of each volume type, the most refused first."""

    types: list[TypeRefusals]


class HistorySlot(Struct, kw_only=True):
    """The figures of a pool in the slot of ten minutes, an hour or a day that begins at ``slot``, at its end.

    Null is unknown or no limit. ``created_gb``, ``deleted_gb`` and ``moved_gb`` are the flows of the slot; migrations
    are counted separately.
    """

    slot: str
    used_gb: float | None
    used_min_gb: float | None
    used_max_gb: float | None
    physical_limit_gb: float | None
    promised_gb: float | None
    promise_limit_gb: float | None
    in_flight_max_gb: int
    created_gb: int
    deleted_gb: int
    moved_gb: int


class PoolHistory(Struct, kw_only=True):
    """The history of a pool, the oldest slot first, and the forecasts for its bounds. Missed slots are missing."""

    name: str
    slots: list[HistorySlot]
    forecasts: list[PoolForecast]
