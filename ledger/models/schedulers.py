# SPDX-License-Identifier: Apache-2.0
"""The processes that decide, and the rules that they go by together."""

import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Timestamp, utcnow


class Service(Base):
    """A scheduler process, when it last said that it is there, and what it goes by, or is to go by.

    What all of them go by is in :class:`Rules`. ``enabled`` is what an operator has said of it. ``last_listened_at`` is
    when it last could hear agents; null if it never could.
    """

    __tablename__ = "services"

    binary: orm.Mapped[str] = orm.mapped_column(sa.String(64), primary_key=True)
    host: orm.Mapped[str] = orm.mapped_column(sa.String(255), primary_key=True)
    availability_zone: orm.Mapped[str] = orm.mapped_column(sa.String(255), default="")
    last_seen_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    last_listened_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    default_ratio: orm.Mapped[str | None] = orm.mapped_column(sa.String(32))
    calculation: orm.Mapped[str | None] = orm.mapped_column(sa.String(16))
    enabled: orm.Mapped[bool] = orm.mapped_column(default=True, server_default=sa.true())
    disabled_reason: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))


class Rules(Base):
    """The one row of what all schedulers go by. ``generation`` grows with each change, and all backends bear it.

    So nothing has to read this row to know that it has changed: whoever books or reports locks a backend's row anyway.
    """

    __tablename__ = "rules"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    default_ratio: orm.Mapped[str] = orm.mapped_column(sa.String(32))
    calculation: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    generation: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
