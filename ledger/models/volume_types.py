# SPDX-License-Identifier: Apache-2.0
"""Volume types with their extra specs, QoS specs and access lists."""

import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Json, Timestamp, Uuid, exact_text, utcnow


class VolumeType(Base):
    """A volume type."""

    __tablename__ = "volume_types"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(exact_text(255), unique=True)
    description: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    is_public: orm.Mapped[bool] = orm.mapped_column(default=True)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())

    specs: orm.Mapped[list["ExtraSpec"]] = orm.relationship(cascade="all, delete-orphan", lazy="selectin")
    qos: orm.Mapped["QosSpecs | None"] = orm.relationship(secondary="volume_type_qos_specs", viewonly=True)

    @property
    def extra_specs(self) -> dict[str, str]:
        """The extra specs as a mapping."""
        return {spec.key: spec.value for spec in self.specs}

    @property
    def qos_specs(self) -> dict[str, str]:
        """The QoS specs as a mapping."""
        return {} if self.qos is None else self.qos.specs


class ExtraSpec(Base):
    """One extra spec of a volume type."""

    __tablename__ = "volume_type_extra_specs"

    volume_type_id: orm.Mapped[str] = orm.mapped_column(
        sa.ForeignKey(VolumeType.id, ondelete="CASCADE"), primary_key=True
    )
    key: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    value: orm.Mapped[str] = orm.mapped_column(exact_text(255))


class QosSpecs(Base):
    """Limits for volumes of some types, such as a number of operations per second.

    ``consumer`` enforces them: the hypervisor (``front-end``), the storage (``back-end``) or ``both``.
    """

    __tablename__ = "qos_specs"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(exact_text(255), unique=True)
    consumer: orm.Mapped[str] = orm.mapped_column(exact_text(16))
    specs: orm.Mapped[dict[str, str]] = orm.mapped_column(Json, default=dict)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class TypeQos(Base):
    """The association of a volume type with QoS specs; a type has at most one."""

    __tablename__ = "volume_type_qos_specs"

    volume_type_id: orm.Mapped[str] = orm.mapped_column(
        sa.ForeignKey(VolumeType.id, ondelete="CASCADE"), primary_key=True
    )
    qos_specs_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(QosSpecs.id), index=True)


class TypeAccess(Base):
    """A project with access to a private volume type."""

    __tablename__ = "volume_type_access"

    volume_type_id: orm.Mapped[str] = orm.mapped_column(
        sa.ForeignKey(VolumeType.id, ondelete="CASCADE"), primary_key=True
    )
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
