# SPDX-License-Identifier: Apache-2.0
"""Judging bookings from outside: the rules of the design, written once more, on the rows as they were."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.ledger.claims.bookings import Booking

_SLACK = 1e-5

Row = dict[str, Any]


def snapshot(session: orm.Session) -> dict[int, Row]:
    """Return the pools with their backends' states, by id, as they are at this moment."""
    rows = session.execute(
        sa.text(
            "SELECT pools.*, backends.enabled AS enabled, backends.draining AS draining "
            "FROM pools JOIN backends ON backends.id = pools.backend_id"
        )
    )
    return {row["id"]: dict(row) for row in rows.mappings()}


def promised(row: Row) -> float:
    """Return P."""
    if row["provisioned_capacity_gb"] is None:
        return float(row["allocated_capacity_gb"] + row["shared_allocated_gb"] + row["external_gb"])
    return float(row["provisioned_capacity_gb"] + row["in_flight_gb"] + row["shared_in_flight_gb"])


def room(row: Row, reserved_percentage: float) -> float:
    """Return what is free, less the reserve and what is in flight physically."""
    reserve = math.floor(row["total_capacity_gb"] * reserved_percentage / 100 + _SLACK)
    own = row["free_capacity_gb"] - reserve - row["in_flight_physical_gb"]
    if row["storage_free_gb"] is None:
        return float(own - row["shared_in_flight_physical_gb"])
    shared = row["storage_free_gb"] - row["in_flight_physical_gb"] - row["shared_in_flight_physical_gb"]
    return float(min(own, shared))


def admits(row: Row, size: int, thin: bool, calculation: Calculation, reserved: float) -> bool:
    """Tell whether a pool takes that much, by the table of the design."""
    left = room(row, reserved)
    if not thin:
        return size <= left + _SLACK
    total, ratio = row["total_capacity_gb"], row["ratio"]
    if ratio < 1:
        return False
    if calculation is Calculation.STANDARD:
        reserve = math.floor(total * reserved / 100 + _SLACK)
        return bool(promised(row) + size <= (total - reserve) * ratio + _SLACK)
    return bool(promised(row) + size <= total * ratio + _SLACK and size <= left * ratio + _SLACK)


def claim(rows: Mapping[int, Row], row: Row, size: int, physical: int) -> None:
    """Count a claim as the next one has to see it."""
    row["allocated_capacity_gb"] += size
    row["in_flight_gb"] += size
    row["in_flight_physical_gb"] += physical
    for other in rows.values():
        if other is row or row["storage_id"] is None or other["storage_id"] != row["storage_id"]:
            continue
        other["shared_in_flight_physical_gb"] += physical
        if other["storage_free_gb"] is None:
            other["shared_allocated_gb"] += size
            other["shared_in_flight_gb"] += size


def reserved_percentage(row: Row) -> float:
    """Return what a pool reported."""
    stats = row["stats"]
    return float((json.loads(stats) if isinstance(stats, str) else stats).get("reserved_percentage") or 0)


def replay(rows: dict[int, Row], bookings: Sequence[Booking], calculation: Calculation) -> None:
    """Book once more, one after the other, and fail where a pool, as it was, should have refused.

    The ledger takes them pool by pool; what is decided earlier may be thick, which looks at fewer limits.
    """
    for booking in sorted(bookings, key=lambda booking: booking.pool_id):
        row = rows[booking.pool_id]
        thin = booking.provisioning is Provisioning.THIN
        shown = {key: value for key, value in row.items() if key != "stats"}
        assert row["present"], (booking, shown)
        assert row["enabled"], (booking, shown)
        assert not row["draining"], (booking, shown)
        assert admits(row, booking.size_gb, thin, calculation, reserved_percentage(row)), (booking, shown)
        claim(rows, row, booking.size_gb, booking.physical_gb)
