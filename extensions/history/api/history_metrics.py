# SPDX-License-Identifier: Apache-2.0
"""The series of forecasts and of refusals to come in the page ``/metrics/ledger``."""

import itertools
import math
from collections.abc import Collection, Sequence

from sqlalchemy import orm

from tonnage.api.monitoring.exposition import LabelCache, Page, labels, timestamp
from tonnage.api.monitoring.ledger_page import PageScope
from tonnage.extensions.history import coming_refusals, last_forecasts
from tonnage.extensions.history.coming_refusals import StoredRefusals
from tonnage.extensions.history.forecast.time_to_full import BOUNDS
from tonnage.extensions.history.last_forecasts import SoonFull

_DAY_SECONDS = 86400.0


class HistorySeries:
    """The time until pools are full, and the refusals to come of volume types."""

    def __init__(self, max_pools: int) -> None:
        self._labels = LabelCache(_labels, 2 * len(BOUNDS) * max_pools)

    def add(self, page: Page, session: orm.Session, scope: PageScope) -> None:
        """Add the forecasts of the pools with series of their own, and the refusals to come if all is shown."""
        if scope.current_pools is not None:
            forecasts = last_forecasts.soon_full(session, backend=scope.backend)
            self._add_forecasts(page, forecasts, scope.current_pools)
        if scope.backend is None:
            _add_coming_refusals(page, coming_refusals.latest(session, requests=False))

    def _add_forecasts(self, page: Page, forecasts: SoonFull, current: Collection[str]) -> None:
        pool_labels = self._labels.of(zip(forecasts.pools, forecasts.bounds, strict=True))
        up = [pool in current for pool in forecasts.pools]
        texts: list[str] = []
        values: list[int] = []
        for number, days in enumerate((forecasts.p10, forecasts.p50, forecasts.p90)):
            shown = [is_up and days_left < math.inf for is_up, days_left in zip(up, days, strict=True)]
            texts += [of_pool[number] for of_pool in itertools.compress(pool_labels, shown)]
            values += [round(days_left * _DAY_SECONDS) for days_left in itertools.compress(days, shown)]
        page.add_column(
            "tonnage_pool_time_to_full_seconds",
            "Time until a bound is reached with a probability of 10, 50 or 90 %, if that is less than 90 days.",
            texts,
            values,
        )


def _labels(key: tuple[str, str]) -> tuple[str, ...]:
    pool, bound = key
    return tuple(labels(pool=pool, bound=bound, estimate=estimate) for estimate in ("p10", "p50", "p90"))


def _add_coming_refusals(page: Page, refusals: Sequence[StoredRefusals]) -> None:
    page.add_gauge(
        "tonnage_volume_type_coming_refusals_ratio",
        "Share of the simulated runs of 14 days in which the type was refused; an empty type has volumes without one.",
        [
            (labels(type=type_refusals.volume_type), type_refusals.of.refused / type_refusals.of.runs)
            for type_refusals in refusals
            if type_refusals.of.runs
        ],
    )
    made_at = [("", timestamp(type_refusals.made_at)) for type_refusals in refusals[:1]]
    page.add_gauge("tonnage_coming_refusals_timestamp_seconds", "Time of these runs.", made_at)
