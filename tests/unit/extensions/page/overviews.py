# SPDX-License-Identifier: Apache-2.0
"""Ledgers with backends and pools, and the overviews that are read from them."""

import datetime
import functools
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.history.api import history_resources
from tonnage.extensions.page import capacity_overview
from tonnage.extensions.page.capacity_overview import Overview
from tonnage.extensions.page.overview_bodies import BackendOverview, CapacitySummary, PoolOverview
from tonnage.ledger import models
from tonnage.ledger.db import database

#: Seconds of silence after which a backend is down.
DOWN_TIME = 60.0


def add(
    ledger: database.Database, backend: str, pools: dict[str, dict[str, Any]], silence: float = 0.0, **fields: Any
) -> None:
    """Add a backend with pools; a pool is its report, with counters of the row under ``row``."""
    with orm.Session(ledger.engine) as session:
        now = session.execute(sa.select(models.utcnow())).scalar_one()
        reported_at = now - datetime.timedelta(seconds=silence)
        row = models.Backend(name=backend, availability_zone="nova", last_report_at=reported_at, **fields)
        session.add(row)
        session.flush()
        for name, report in pools.items():
            counters = report.pop("row", {})
            row.allocated_capacity_gb += counters.get("allocated_capacity_gb", 0)
            session.add(
                models.Pool(
                    backend_id=row.id,
                    name=f"{backend}#{name}",
                    stats={"pool_name": name, **report},
                    storage_id=report.get("storage_id"),
                    ratio=report.get("max_over_subscription_ratio", 1.0),
                    **counters,
                )
            )
        session.commit()


def overview(ledger: database.Database) -> Overview:
    """Return the overview of a ledger."""
    forecasts = history_resources.shared_forecasts(ledger, 0.0)
    pool_forecasts = functools.partial(history_resources.pool_forecasts, forecasts)
    return capacity_overview.shared_overview(ledger, DOWN_TIME, lambda: [], pool_forecasts, 0.0).get()


def read(ledger: database.Database) -> tuple[dict[str, PoolOverview], CapacitySummary]:
    """Return the pools of a ledger by their short names, and their summary."""
    result = overview(ledger)
    return {pool.name.partition("#")[2]: pool for pool in result.pools}, result.summary


def backends(ledger: database.Database) -> list[BackendOverview]:
    """Return the backends of a ledger."""
    return list(overview(ledger).backends)


def thin(total: Any, free: Any, ratio: float = 2.0, **more: Any) -> dict[str, Any]:
    """Return the report of a pool with thin volumes."""
    figures = {"total_capacity_gb": total, "free_capacity_gb": free, "max_over_subscription_ratio": ratio}
    return figures | {"thin_provisioning_support": True} | more
