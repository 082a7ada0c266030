# SPDX-License-Identifier: Apache-2.0
"""Groups of volumes and their types."""

import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Json, Timestamp, Uuid, exact_text, utcnow
from tonnage.ledger.models.volume_types import VolumeType


class GroupType(Base):
    """A type of groups. Its ``specs`` are requirements for a group's backend, as extra specs are for a volume's."""

    __tablename__ = "group_types"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(exact_text(255), unique=True)
    description: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    is_public: orm.Mapped[bool] = orm.mapped_column(default=True)
    specs: orm.Mapped[dict[str, str]] = orm.mapped_column(Json, default=dict)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class Group(Base):
    """Volumes that share one backend. The backend is that of its volumes; no column stores it.

    A group that is being deleted exists until its last volume is deleted.
    """

    __tablename__ = "groups"
    __table_args__ = (sa.Index("ix_groups_project_id_created_at", "project_id", "created_at", "id"),)

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    description: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    group_type_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(GroupType.id), index=True)
    availability_zone: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    status: orm.Mapped[str] = orm.mapped_column(exact_text(32))
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    updated_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp, onupdate=utcnow())

    group_type: orm.Mapped[GroupType] = orm.relationship()
    volume_types: orm.Mapped[list[VolumeType]] = orm.relationship(
        secondary="group_volume_types", order_by=VolumeType.name, lazy="selectin"
    )


class GroupVolumeType(Base):
    """A volume type that volumes of a group may have."""

    __tablename__ = "group_volume_types"

    group_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(Group.id, ondelete="CASCADE"), primary_key=True)
    volume_type_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(VolumeType.id), primary_key=True, index=True)
