# SPDX-License-Identifier: Apache-2.0
"""The table of the allocations that were sent to Placement."""

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Uuid, exact_text


class Allocation(Base):
    """The allocation of a volume in one pool as it was sent to OpenStack Placement, under a consumer id.

    ``consumer_type`` is a ``ConsumerType`` of the module ``placement_allocations``. ``generation`` is the consumer's
    generation in Placement; null while Placement does not have it. ``doubt`` names the round that is sending a change:
    until that round is known to have ended, Placement may have either size. Pools may be deleted before their
    allocations are withdrawn.
    """

    __tablename__ = "placement_allocations"

    consumer_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    consumer_type: orm.Mapped[str] = orm.mapped_column(exact_text(16))
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    pool_id: orm.Mapped[int] = orm.mapped_column(sa.Integer, index=True)
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), index=True)
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    generation: orm.Mapped[int | None] = orm.mapped_column(sa.Integer)
    doubt: orm.Mapped[str | None] = orm.mapped_column(Uuid)
