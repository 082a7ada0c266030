# SPDX-License-Identifier: Apache-2.0
"""Counts of the claims on the storage of clusters, for metrics."""

from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger import models


class ClaimCount(NamedTuple):
    """The number of claims on the capacity of a driver of clusters, and their sum in bytes."""

    number: int
    size: int


def by_driver(session: orm.Session) -> dict[str, ClaimCount]:
    """Return the counts of the claims that have not expired, by the names of the drivers."""
    driver, claim = tables.CsiDriver, tables.CsiClaim
    is_live = sa.and_(claim.driver_uid == driver.uid, claim.expires_at > models.utcnow())
    # Also the drivers without claims, so that a series goes down to 0.
    counts = (
        sa.select(driver.name, sa.func.count(claim.holder), sa.func.coalesce(sa.func.sum(claim.size), 0))
        .join(claim, is_live, isouter=True)
        .group_by(driver.name)
    )
    return {name: ClaimCount(number, int(size)) for name, number, size in session.execute(counts)}
