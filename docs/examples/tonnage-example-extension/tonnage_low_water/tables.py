# SPDX-License-Identifier: Apache-2.0
"""The table of the extension, and its rows."""

import datetime
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Timestamp, exact_text, utcnow


class LowWaterMark(Base):
    """The lowest free capacity of a pool, in GiB, and the time of the report that had it."""

    __tablename__ = "low_water_marks"

    pool: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    free_gb: orm.Mapped[float] = orm.mapped_column(sa.Double)
    reported_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow(), onupdate=utcnow())


def marks(session: orm.Session) -> Sequence[LowWaterMark]:
    """Return the marks of all pools."""
    return session.scalars(sa.select(LowWaterMark).order_by(LowWaterMark.pool)).all()
