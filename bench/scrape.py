#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the pages about the ledger: processor time and size, beside the renderer of the Prometheus client.

The ledger is a file of SQLite with synthetic pools. Run it with the Python that Tonnage is installed in::

    python bench/scrape.py --pools 1000 10000
"""

import argparse
import datetime
import gc
import gzip
import itertools
import pathlib
import statistics
import sys
import tempfile
import time

import prometheus_client
from prometheus_client import parser
from prometheus_client.registry import Collector

sys.path.append(str(pathlib.Path(__file__).parents[1]))

import comparison_runner
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.api.monitoring.cached_page import CachedPage
from tonnage.api.monitoring.ledger_page import LedgerPage
from tonnage.api.monitoring.openstack_page import OpenStackPage
from tonnage.extensions.history import history_writer, tables
from tonnage.extensions.history.api.history_metrics import HistorySeries
from tonnage.extensions.history.forecast.time_to_full import BOUNDS
from tonnage.extensions.kubernetes.api.csi_metrics import ClaimSeries
from tonnage.ledger import models
from tonnage.ledger.db import database

_ROUNDS = 3


class _Series(Collector):
    """The families of a page, as the client library has them."""

    def __init__(self, text: str) -> None:
        self._families = list(parser.text_string_to_metric_families(text))

    def collect(self):  # type: ignore[no-untyped-def]
        """Return the families."""
        return self._families


def ledger(folder: str, pools: int, full_soon: int) -> database.Database:
    """Return a ledger with a hundred pools for each backend and forecasts of two days for both bounds of each pool.

    ``full_soon`` percent of the pools are expected to be full within 90 days.
    """
    engine = database.create_engine(f"sqlite:///{folder}/{pools}-{full_soon}.sqlite")
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        for number in range(-(-pools // 100)):
            session.add(models.Backend(id=number + 1, name=f"host{number}@array", last_report_at=models.utcnow()))
        session.flush()
        row = {"total_capacity_gb": 1000.5, "free_capacity_gb": 400.25, "provisioned_capacity_gb": 1200.0}
        row |= {"thin_limit_gb": 20000.0, "physical_limit_gb": 350.0, "allocated_capacity_gb": 900}
        row["stats"] = {"volume_backend_name": "array", "vendor_name": "Example", "driver_version": "1.0", **row}
        values = [
            {"backend_id": number // 100 + 1, "name": f"host{number // 100}@array#pool{number}", **row}
            for number in range(pools)
        ]
        session.execute(sa.insert(models.Pool), values)
        today = history_writer.database_time(session).replace(hour=0, minute=0, second=0, microsecond=0)
        forecasts = []
        for made_on in (today - datetime.timedelta(days=1), today):
            for pool_id in session.scalars(sa.select(models.Pool.id)):
                days = (9.25, 14.5, 20.75) if pool_id % 100 < full_soon else (None, None, None)
                found = dict(zip(("p10_days", "p50_days", "p90_days"), days, strict=True))
                row = {"made_on": made_on, "pool_id": pool_id, "known_days": 60, "low_gb": 1.0, "high_gb": 2.0, **found}
                forecasts += [{**row, "bound": bound} for bound in BOUNDS]
        session.execute(sa.insert(tables.PoolForecast), forecasts)
        session.commit()
    return database.Database(engine)


def seconds(work) -> float:  # type: ignore[no-untyped-def]
    """Return the median processor time of a call."""
    found = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return statistics.median(found)


def main() -> int:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pools", type=int, nargs="+", default=[1_000, 10_000], help="numbers of pools")
    arguments.add_argument("--max-pools", type=int, default=10_000, help="as the option max_pools")
    arguments.add_argument(
        "--full-soon", type=int, nargs="+", default=[10, 100], help="percents of the pools with a time to full"
    )
    given = arguments.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for pools, full_soon in itertools.product(given.pools, given.full_soon):
            database = ledger(folder, pools, full_soon)
            pages: dict[str, CachedPage] = {
                "ledger": LedgerPage(
                    database,
                    86400.0,
                    given.max_pools,
                    0.0,
                    [HistorySeries(given.max_pools), ClaimSeries(given.max_pools)],
                ),
                "openstack": OpenStackPage(database, 86400.0, 0.0, given.max_pools, 1000, {}),
            }
            for name, page in pages.items():
                text = gzip.decompress(page.compressed()).decode()
                registry = prometheus_client.CollectorRegistry()
                registry.register(_Series(text))
                peer = seconds(lambda: prometheus_client.generate_latest(registry))  # noqa: B023
                sizes = [
                    sum(line[0] != "#" for line in text.splitlines()),
                    len(text) // 1000,
                    len(page.compressed()) // 1000,
                ]
                # As in a daemon, whose objects of the start the garbage collector leaves out.
                gc.collect()
                gc.freeze()
                rows.append([name, pools, full_soon, *sizes, f"{seconds(page.compressed):.3f}", f"{peer:.3f}"])
    heads = [
        "page",
        "pools",
        "% full soon",
        "series",
        "kB",
        "kB compressed",
        "seconds",
        "seconds of the client's renderer alone",
    ]
    print(comparison_runner.table(heads, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
