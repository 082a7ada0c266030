# SPDX-License-Identifier: Apache-2.0
"""The page ``/metrics/ledger``: pools, backends, claims and volumes as the ledger has them.

It is the same whichever process serves it, so Prometheus needs one target for it.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tonnage.api.monitoring.cached_page import CachedPage
from tonnage.api.monitoring.exposition import Page, gib_in_bytes, labels, limit_in_bytes, timestamp
from tonnage.capacity.reports.audit_rules import Breach
from tonnage.ledger.db.database import Database
from tonnage.ledger.history import last_forecasts
from tonnage.ledger.history.last_forecasts import MadeForecast
from tonnage.ledger.inventory import capacity_figures, heartbeats, listings
from tonnage.ledger.inventory.capacity_figures import Counts, PoolFigures
from tonnage.ledger.inventory.heartbeats import ServiceRow
from tonnage.rpc.messages import Verb

_DAY_SECONDS = 86400.0


class _Capacity(NamedTuple):
    """A capacity of a pool: the end of the metric's name, its description, and its value in bytes."""

    name: str
    description: str
    of: Callable[[PoolFigures], float]


_CAPACITIES = (
    _Capacity("total_bytes", "Physical size. NaN: unknown or infinite.", lambda pool: gib_in_bytes(pool.total_gb)),
    _Capacity("free_bytes", "Physical free space. NaN: unknown or infinite.", lambda pool: gib_in_bytes(pool.free_gb)),
    _Capacity(
        "provisioned_bytes",
        "Sum of the full sizes of all volumes, as reported. NaN: not reported.",
        lambda pool: gib_in_bytes(pool.provisioned_gb),
    ),
    _Capacity("allocated_bytes", "Sum of the volumes placed.", lambda pool: gib_in_bytes(pool.allocated_gb)),
    _Capacity(
        "in_flight_bytes",
        "Claims that the provisioned capacity does not contain yet.",
        lambda pool: gib_in_bytes(pool.in_flight_gb),
    ),
    _Capacity(
        "in_flight_physical_bytes",
        "Claims that the free space does not contain yet.",
        lambda pool: gib_in_bytes(pool.in_flight_physical_gb),
    ),
)

#: Figures of a pool that have no meaning as sums of pools.
_OWN = (
    _Capacity(
        "virtual_limit_bytes",
        "Bound of provisioned and in-flight capacity of thin volumes. +Inf: none.",
        lambda pool: limit_in_bytes(pool.virtual_limit_gb),
    ),
    _Capacity(
        "physical_limit_bytes",
        "Free space less the reserve. +Inf: none.",
        lambda pool: limit_in_bytes(pool.physical_limit_gb),
    ),
    _Capacity("oversubscription_ratio", "Largest provisioned capacity by total.", lambda pool: pool.ratio),
)


class LedgerPage(CachedPage):
    """Makes the page.

    A backend is down after ``down_time`` seconds of silence. Its pools have the series ``up`` and
    ``figures_timestamp_seconds`` only, so that sums contain no old figures. If there are more than ``max_pools`` pools,
    the page has sums of the backends' pools instead of the pools.
    """

    def __init__(self, database: Database, down_time: float, max_pools: int, cache_time: float) -> None:
        super().__init__(cache_time)
        self._database, self._down_time, self._max_pools = database, down_time, max_pools

    def text(self, backend: str | None) -> bytes:
        """Return the page, or the part about one backend."""
        now = time.time()
        with self._database.reading(snapshot=True, patient=False) as session:
            pools = capacity_figures.pools(session, backend=backend)
            services = heartbeats.load(session)
            has_series = len(pools) <= self._max_pools
            forecasts = last_forecasts.latest(session, backend=backend) if has_series else []
            counts = None if backend is not None else capacity_figures.counts(session)
        page = Page()
        self._add_services(page, [row for row in services if backend in (None, row.host)])
        if has_series:
            self._add_pools(page, pools)
            up = {pool.name for pool in pools if pool.up(self._down_time)}
            _add_forecasts(page, [forecast for forecast in forecasts if forecast.pool in up])
        else:
            self._add_sums(page, pools)
        omitted = 0 if has_series else len(pools)
        page.add_gauge("tonnage_metrics_pools_omitted", "Pools without series of their own.", [("", omitted)])
        page.add_gauge("tonnage_metrics_snapshot_timestamp_seconds", "Time at which the ledger was read.", [("", now)])
        if counts is not None:
            _add_counts(page, counts)
        return page.encode()

    def _add_services(self, page: Page, services: Iterable[ServiceRow]) -> None:
        for kind, name, label in (
            (heartbeats.AGENT, "tonnage_backend", "backend"),
            (heartbeats.SCHEDULER, "tonnage_scheduler", "host"),
        ):
            rows = [(labels(**{label: row.host}), row) for row in services if row.binary == kind]
            statement = f"Whether the {label if label == 'backend' else 'scheduler'}"
            page.add_gauge(f"{name}_up", f"{statement} is up.", [(text, row.up(self._down_time)) for text, row in rows])
            page.add_gauge(f"{name}_enabled", f"{statement} is enabled.", [(text, row.enabled) for text, row in rows])
            if kind == heartbeats.AGENT:
                draining = [(text, row.draining) for text, row in rows]
                page.add_gauge(f"{name}_draining", f"{statement}'s volumes are migrated away.", draining)
            seen = [(text, timestamp(row.last_seen_at)) for text, row in rows if row.last_seen_at is not None]
            last = "report" if kind == heartbeats.AGENT else "heartbeat"
            page.add_gauge(f"{name}_{last}_timestamp_seconds", f"Time of the last {last}.", seen)

    def _add_pools(self, page: Page, pools: Sequence[PoolFigures]) -> None:
        named = [(labels(pool=pool.name), pool) for pool in pools]
        page.add_gauge(
            "tonnage_pool_info",
            "Facts about the pool, as labels.",
            [
                (
                    labels(
                        pool=pool.name,
                        backend=pool.backend,
                        zone=pool.zone,
                        driver=pool.driver,
                        storage=pool.storage or "",
                    ),
                    1,
                )
                for pool in pools
            ],
        )
        page.add_gauge(
            "tonnage_pool_up",
            "Whether the pool's backend is up.",
            [(text, pool.up(self._down_time)) for text, pool in named],
        )
        page.add_gauge(
            "tonnage_pool_figures_timestamp_seconds",
            "Time at which the driver collected the figures.",
            [(text, timestamp(pool.collected_at)) for text, pool in named if pool.collected_at is not None],
        )
        current = [(text, pool) for text, pool in named if pool.up(self._down_time)]
        for capacity in (*_CAPACITIES, *_OWN):
            series = ((text, capacity.of(pool)) for text, pool in current)
            page.add_gauge(f"tonnage_pool_{capacity.name}", capacity.description, series)

    def _add_sums(self, page: Page, pools: Sequence[PoolFigures]) -> None:
        by_backend: dict[str, list[PoolFigures]] = {}
        for pool in pools:
            if pool.up(self._down_time):
                by_backend.setdefault(pool.backend, []).append(pool)
        named = [(labels(backend=backend), of) for backend, of in by_backend.items()]
        page.add_gauge("tonnage_backend_pools", "Number of pools.", [(text, len(of)) for text, of in named])
        for capacity in _CAPACITIES:
            # A sum with an unknown capacity is unknown.
            series = ((text, sum(map(capacity.of, of))) for text, of in named)
            page.add_gauge(f"tonnage_backend_{capacity.name}", f"{capacity.description} Sum of its pools.", series)


def _add_forecasts(page: Page, forecasts: Iterable[MadeForecast]) -> None:
    series = []
    for made in forecasts:
        found = made.forecast.time_to_full
        for estimate in ("p10", "p50", "p90"):
            days = math.inf if found is None else getattr(found, estimate)
            if math.isfinite(days):
                text = labels(pool=made.pool, bound=made.forecast.bound, estimate=estimate)
                series.append((text, days * _DAY_SECONDS))
    page.add_gauge(
        "tonnage_pool_time_to_full_seconds",
        "Time until a bound is reached with a probability of 10, 50 or 90 %, if that is less than 90 days.",
        series,
    )


def _add_counts(page: Page, counts: Counts) -> None:
    claims = {labels(verb=claim.verb, state=claim.state): claim for claim in counts.claims}
    none = {labels(verb=verb, state=state): 0 for verb in Verb for state in capacity_figures.OPEN}
    numbers = none | {text: claim.number for text, claim in claims.items()}
    page.add_gauge("tonnage_claims", "Claims whose operation has not ended.", numbers.items())
    page.add_gauge(
        "tonnage_claim_oldest_timestamp_seconds",
        "Time of the oldest of these claims.",
        [(text, timestamp(claim.oldest_at)) for text, claim in claims.items()],
    )
    page.add_gauge(
        "tonnage_volumes", "Volumes by status.", [(labels(status=key), value) for key, value in counts.volumes.items()]
    )
    page.add_gauge(
        "tonnage_volume_type_allocated_bytes",
        "Sum of the volumes of a type; an empty type has those without one.",
        [(labels(type=key), gib_in_bytes(value)) for key, value in counts.allocated_by_type.items()],
    )
    page.add_gauge(
        "tonnage_ledger_discrepancies",
        "Differences between the ledger and the last listings.",
        [(labels(cause=key), counts.discrepancies.get(key, 0)) for key in listings.KINDS],
    )
    page.add_gauge(
        "tonnage_driver_findings",
        "Breaches of the definitions of reports.",
        [(labels(kind=key), counts.findings.get(key, 0)) for key in Breach],
    )
    drivers = [(labels(driver=name), claims) for name, claims in counts.csi_claims.items()]
    page.add_gauge(
        "tonnage_csi_claims",
        "Claims on the capacity of a driver of clusters.",
        [(text, claims.number) for text, claims in drivers],
    )
    page.add_gauge(
        "tonnage_csi_claimed_bytes", "Sum of these claims.", [(text, claims.size) for text, claims in drivers]
    )
