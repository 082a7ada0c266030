# SPDX-License-Identifier: Apache-2.0
"""What pools may hold, restated: the rules have changed, the figures have not."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models


@dataclass(frozen=True, slots=True)
class Limit:
    """The ratio of a pool, and what provisioned and in-flight capacity may reach there in GiB; None is no limit."""

    pool_id: int
    ratio: float
    thin_limit_gb: float | None


def restate(session: orm.Session, limits: Sequence[Limit]) -> None:
    """Write limits that follow from the figures in the pools' rows, which must be locked since these were read.

    Decisions that saw the old ones do not take effect.
    """
    rows = [
        {"of": limit.pool_id, "its_ratio": limit.ratio, "limit": limit.thin_limit_gb}
        for limit in sorted(limits, key=lambda limit: limit.pool_id)
    ]
    if rows:
        session.connection().execute(_RESTATE, rows)


_POOL = models.table(models.Pool)
_RESTATE = (
    sa.update(_POOL)
    .where(_POOL.c.id == sa.bindparam("of"))
    .values(
        ratio=sa.bindparam("its_ratio"),
        thin_limit_gb=sa.bindparam("limit"),
        generation=_POOL.c.generation + 1,
    )
)
