# SPDX-License-Identifier: Apache-2.0
"""The table of refusals."""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Timestamp, Uuid, exact_text, utcnow
from tonnage.ledger.models.free_text import FreeText


class Refusal(Base):
    """The refusal of a request. ``verb`` is that of the request, ``volume_id`` its volume, of a group the first one.

    ``filter`` and ``code`` are the reason of the nearest pool, ``pool`` (null if there is none). ``largest_size_gb`` is
    the size that would have been accepted, if the size was the reason. ``request_body`` is the body of the request to
    ``POST /volumes``; null for other requests.
    """

    __tablename__ = "refusals"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    refused_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    request_id: orm.Mapped[str] = orm.mapped_column(exact_text(64))
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    verb: orm.Mapped[str] = orm.mapped_column(exact_text(8))
    request: orm.Mapped[str] = orm.mapped_column(FreeText())
    filter: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    code: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    pool: orm.Mapped[str | None] = orm.mapped_column(exact_text(511), index=True)
    largest_size_gb: orm.Mapped[int | None] = orm.mapped_column(sa.Integer)
    message: orm.Mapped[str] = orm.mapped_column(FreeText())
    request_body: orm.Mapped[dict[str, Any] | None] = orm.mapped_column(sa.JSON(none_as_null=True))
