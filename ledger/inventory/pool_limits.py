# SPDX-License-Identifier: Apache-2.0
"""New limits of pools after a change of the scheduling rules, computed from unchanged figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models


@dataclass(frozen=True, slots=True)
class Limit:
    """The ratio of a pool, and its limit for provisioned plus in-flight capacity in GiB; None is no limit."""

    pool_id: int
    ratio: float
    thin_limit_gb: float | None


class StoredLimit(Protocol):
    """The part of a pool's row that has its ratio and its limit; None is no limit."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def ratio(self) -> float: ...
    @property
    def thin_limit_gb(self) -> float | None: ...


class LimitRow(NamedTuple):
    """The ratio and the limit in the row of a pool; None is no limit."""

    id: int
    name: str
    ratio: float
    thin_limit_gb: float | None


def update_limits(session: orm.Session, limits: Sequence[Limit]) -> None:
    """Write new limits that follow from the figures in the pools' rows.

    The pools must be locked before their figures are read. Decisions that read the old limits do not take effect.
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
