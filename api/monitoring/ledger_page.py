# SPDX-License-Identifier: Apache-2.0
"""The page ``/metrics/ledger``: pools, backends, claims and volumes as the ledger has them.

It is the same whichever process serves it, so Prometheus needs one target for it.
"""

import itertools
import math
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sqlalchemy import orm

from tonnage.api.monitoring.cached_page import CachedPage
from tonnage.api.monitoring.exposition import LabelCache, Page, all_in_bytes, gib_in_bytes, labels, timestamp
from tonnage.capacity.reports.audit_rules import Breach
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import capacity_figures, listings
from tonnage.ledger.inventory.capacity_figures import BackendSums, Counts, PoolFigures
from tonnage.ledger.locks import heartbeats
from tonnage.ledger.locks.heartbeats import ServiceRow
from tonnage.rpc.messages import Verb


class _Capacity(NamedTuple):
    """A capacity of a pool: the end of the metric's name, its description, and the value that stands for None."""

    name: str
    description: str
    none: float = math.nan

    @property
    def field(self) -> str:
        """The field of the figures, in GiB."""
        return f"{self.name}_gb"


_CAPACITIES = (
    _Capacity("total", "Physical size. NaN: unknown or infinite."),
    _Capacity("free", "Physical free space. NaN: unknown or infinite."),
    _Capacity("provisioned", "Sum of the full sizes of all volumes, as reported. NaN: not reported."),
    _Capacity("allocated", "Sum of the volumes placed."),
    _Capacity("in_flight", "Claims that the provisioned capacity does not contain yet."),
    _Capacity("in_flight_physical", "Claims that the free space does not contain yet."),
)

#: Capacities of a pool that have no meaning as sums of pools.
_LIMITS = (
    _Capacity("virtual_limit", "Bound of provisioned and in-flight capacity of thin volumes. +Inf: none.", math.inf),
    _Capacity("physical_limit", "Free space less the reserve. +Inf: none.", math.inf),
)


@dataclass(frozen=True, slots=True)
class PageScope:
    """The content of a page: about all backends or one, with series of pools or with sums of backends.

    ``current_pools`` are the names of the pools whose backend is up, None if the page has sums.
    """

    backend: str | None
    current_pools: Collection[str] | None


class LedgerSeries(Protocol):
    """The series that an extension adds to the page: the result of the function in its part ``metrics``.

    The function takes the largest number of pools that have series of their own.
    """

    def add(self, page: Page, session: orm.Session, scope: PageScope) -> None:
        """Add the series. All statements of the page see the same state of the ledger."""


class LedgerPage(CachedPage):
    """Makes the page.

    A backend is down after ``down_time`` seconds of silence. Its pools have the series ``up`` and
    ``figures_timestamp_seconds`` only, so that sums contain no old figures. If there are more than ``max_pools`` pools,
    the page has sums of the backends' pools instead of the pools. ``series`` are those of extensions.
    """

    def __init__(
        self,
        database: Database,
        down_time: float,
        max_pools: int,
        cache_time: float,
        series: Sequence[LedgerSeries] = (),
    ) -> None:
        super().__init__(cache_time)
        self._database, self._down_time, self._max_pools, self._series = database, down_time, max_pools, series
        self._labels = LabelCache(_labels, 2 * max_pools)
        self._info_labels = LabelCache(_info_labels, 2 * max_pools)

    def text(self, backend: str | None) -> bytes:
        """Return the page, or the part about one backend."""
        now = time.time()
        page = Page()
        with self._database.reading(snapshot=True, patient=False) as session:
            services = heartbeats.load(session)
            self._add_services(page, [row for row in services if backend in (None, row.host)])
            number = capacity_figures.number_of_pools(session, backend=backend)
            has_series = number <= self._max_pools
            current_pools = None
            if has_series:
                current_pools = self._add_pools(page, capacity_figures.pools(session, backend=backend))
            else:
                _add_sums(page, capacity_figures.backend_sums(session, self._down_time, backend=backend))
            for extension_series in self._series:
                extension_series.add(page, session, PageScope(backend, current_pools))
            if backend is None:
                _add_counts(page, capacity_figures.counts(session))
        omitted = 0 if has_series else number
        page.add_gauge("tonnage_metrics_pools_omitted", "Pools without series of their own.", [("", omitted)])
        page.add_gauge("tonnage_metrics_snapshot_timestamp_seconds", "Time at which the ledger was read.", [("", now)])
        return page.encode()

    def _add_services(self, page: Page, services: Iterable[ServiceRow]) -> None:
        for binary, name, label in (
            (heartbeats.AGENT, "tonnage_backend", "backend"),
            (heartbeats.SCHEDULER, "tonnage_scheduler", "host"),
        ):
            rows = [(labels(**{label: row.host}), row) for row in services if row.binary == binary]
            statement = f"Whether the {label if label == 'backend' else 'scheduler'}"
            page.add_gauge(f"{name}_up", f"{statement} is up.", [(text, row.up(self._down_time)) for text, row in rows])
            page.add_gauge(f"{name}_enabled", f"{statement} is enabled.", [(text, row.enabled) for text, row in rows])
            if binary == heartbeats.AGENT:
                draining = [(text, row.draining) for text, row in rows]
                page.add_gauge(f"{name}_draining", f"{statement}'s volumes are migrated away.", draining)
            timestamps = [(text, timestamp(row.last_seen_at)) for text, row in rows if row.last_seen_at is not None]
            last = "report" if binary == heartbeats.AGENT else "heartbeat"
            page.add_gauge(f"{name}_{last}_timestamp_seconds", f"Time of the last {last}.", timestamps)

    def _add_pools(self, page: Page, pools: Sequence[PoolFigures]) -> Collection[str]:
        """Add the pools, and return the names of those whose backend is up."""
        if not pools:
            return ()
        texts = self._labels.of(pool.name for pool in pools)
        info = self._info_labels.of((pool.name, pool.backend, pool.zone, pool.driver, pool.storage) for pool in pools)
        page.add_column("tonnage_pool_info", "Facts about the pool, as labels.", info, [1] * len(pools))
        up = [pool.up(self._down_time) for pool in pools]
        page.add_column("tonnage_pool_up", "Whether the pool's backend is up.", texts, up)
        collected = [pool.collected_at for pool in pools]
        # The pools of a backend have the same time, mostly.
        times = {moment: timestamp(moment) for moment in set(collected) if moment is not None}
        page.add_column(
            "tonnage_pool_figures_timestamp_seconds",
            "Time at which the driver collected the figures.",
            [text for text, moment in zip(texts, collected, strict=True) if moment is not None],
            [times[moment] for moment in collected if moment is not None],
        )
        current = list(itertools.compress(pools, up))
        texts = list(itertools.compress(texts, up))
        columns = dict(zip(PoolFigures._fields, zip(*current, strict=True), strict=bool(current)))
        for capacity in (*_CAPACITIES, *_LIMITS):
            values = all_in_bytes(columns.get(capacity.field, ()), capacity.none)
            page.add_column(f"tonnage_pool_{capacity.name}_bytes", capacity.description, texts, values)
        is_part = [pool.storage_free_gb is not None for pool in current]
        page.add_column(
            "tonnage_pool_storage_free_bytes",
            "Free space of the storage of which the pool is a part. Other pools have no such series.",
            list(itertools.compress(texts, is_part)),
            all_in_bytes(itertools.compress(columns.get("storage_free_gb", ()), is_part), math.nan),
        )
        ratios = columns.get("ratio", ())
        page.add_column("tonnage_pool_oversubscription_ratio", "Largest provisioned capacity by total.", texts, ratios)
        return set(columns.get("name", ()))


def _labels(pool: str) -> str:
    return labels(pool=pool)


def _info_labels(key: tuple[str, str, str, str, str | None]) -> str:
    pool, backend, zone, driver, storage = key
    return labels(pool=pool, backend=backend, zone=zone, driver=driver, storage=storage or "")


def _add_sums(page: Page, sums: Sequence[BackendSums]) -> None:
    texts = [labels(backend=row.backend) for row in sums]
    page.add_column("tonnage_backend_pools", "Number of pools.", texts, [row.pools for row in sums])
    for capacity in _CAPACITIES:
        values = all_in_bytes((getattr(row, capacity.field) for row in sums), capacity.none)
        page.add_column(
            f"tonnage_backend_{capacity.name}_bytes", f"{capacity.description} Sum of its pools.", texts, values
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
        [(labels(cause=key), counts.discrepancies.get(key, 0)) for key in listings.CATEGORIES],
    )
    page.add_gauge(
        "tonnage_driver_findings",
        "Breaches of the definitions of reports.",
        [(labels(kind=key), counts.findings.get(key, 0)) for key in Breach],
    )
