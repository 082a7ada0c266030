# SPDX-License-Identifier: Apache-2.0
"""Volumes, their claims, the answers to requests, and messages to users."""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.backends import Backend, Pool
from tonnage.ledger.models.base import Base, Json, Timestamp, Uuid, exact_text, utcnow
from tonnage.ledger.models.free_text import FreeText
from tonnage.ledger.models.volume_types import VolumeType


class Volume(Base):
    """A volume. ``size_gb`` is the size in the ledger; ``status_reason`` is the reason of an error.

    ``attempted_pools`` are the pools that have failed to create it. ``migration_status`` is the result of its last
    migration. ``drain_refusal`` is the reason why no other pool took it from its draining backend; null if none was
    asked, or before the drain.
    """

    __tablename__ = "volumes"
    __table_args__ = (sa.Index("ix_volumes_project_id_created_at", "project_id", "created_at", "id"),)

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    description: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    user_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    status: orm.Mapped[str] = orm.mapped_column(exact_text(32), index=True)
    status_reason: orm.Mapped[str | None] = orm.mapped_column(FreeText())
    volume_type_id: orm.Mapped[str | None] = orm.mapped_column(sa.ForeignKey(VolumeType.id), index=True)
    availability_zone: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    requested_zone: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    pool_id: orm.Mapped[int | None] = orm.mapped_column(sa.ForeignKey(Pool.id), index=True)
    provisioning: orm.Mapped[str | None] = orm.mapped_column(exact_text(8))
    user_metadata: orm.Mapped[dict[str, str]] = orm.mapped_column("metadata", Json, default=dict)
    hints: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json, default=dict)
    attempted_pools: orm.Mapped[list[str]] = orm.mapped_column(Json, default=list)
    request_id: orm.Mapped[str] = orm.mapped_column(exact_text(64), default="")
    source_volume_id: orm.Mapped[str | None] = orm.mapped_column(Uuid)
    migration_status: orm.Mapped[str | None] = orm.mapped_column(exact_text(32))
    drain_refusal: orm.Mapped[str | None] = orm.mapped_column(FreeText())
    group_id: orm.Mapped[str | None] = orm.mapped_column(Uuid, index=True)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    updated_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp, onupdate=utcnow())

    volume_type: orm.Mapped[VolumeType | None] = orm.relationship()
    pool: orm.Mapped[Pool | None] = orm.relationship()


class Claim(Base):
    """One promise of capacity, made with a decision, or the record of a pending operation that takes none.

    ``create``, ``extend`` and ``migrate`` (at the target) take capacity, ``manage`` takes over the capacity of an
    existing copy. ``delete`` and ``purge`` are records: of a volume that is being deleted, and of a copy that is no
    longer needed.

    A claim is ``pending`` until the agent has reported its end, then ``confirmed`` or ``released``. It is ``abandoned``
    if the agent stayed away: it stays counted until a purge has ended. A claim is in flight until it is ``contained``:
    until a report that began after ``end_tick`` has been applied. ``contained_by_all`` is false while the figures of
    another pool on the same storage may lack it; ``end_stamp`` orders its end among the looks of those pools, see
    :class:`Storage`. ``target_size_gb`` is the absolute new size of the volume (for ``manage`` the listed size),
    ``size_gb`` the capacity that the claim adds, ``physical_gb`` the part of it that may be used at once.

    ``sent`` is false for a claim on an observed backend until its command is about to be sent. It serves the extension
    for Cinder alone; a claim is inserted once and has no other row that could hold it without a second insert.

    ``source_pool_id`` is the pool with the source of a copy, ``reference`` the name on the storage of a copy to manage,
    ``volume_type_id`` the type of the volume after a migration (null: unchanged).
    """

    __tablename__ = "claims"
    __table_args__ = (
        sa.Index("ix_claims_pool_id_contained", "pool_id", "contained"),
        sa.Index("ix_claims_backend_id_contained", "backend_id", "contained"),
        sa.Index("ix_claims_pool_id_contained_by_all", "pool_id", "contained_by_all"),
    )

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    backend_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Backend.id))
    pool_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Pool.id))
    verb: orm.Mapped[str] = orm.mapped_column(exact_text(8))
    state: orm.Mapped[str] = orm.mapped_column(exact_text(12), index=True)
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    physical_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    target_size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    provisioning: orm.Mapped[str] = orm.mapped_column(exact_text(8))
    contained: orm.Mapped[bool] = orm.mapped_column(default=False)
    end_epoch: orm.Mapped[int | None] = orm.mapped_column()
    end_tick: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    contained_by_all: orm.Mapped[bool] = orm.mapped_column(default=True)
    end_stamp: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    sent: orm.Mapped[bool] = orm.mapped_column(default=True)
    source_pool_id: orm.Mapped[int | None] = orm.mapped_column()
    reference: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    volume_type_id: orm.Mapped[str | None] = orm.mapped_column(Uuid)
    request_id: orm.Mapped[str] = orm.mapped_column(exact_text(64), default="")
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class RequestKey(Base):
    """The answer to a request: the same request delivered again gets this answer, without a new decision.

    A key lives as long as its volume, and some days longer, counted from ``counted_from``. The key of a ``refused``
    request does not depend on the volume, and is counted from a time in the past, because there may be millions.
    """

    __tablename__ = "request_keys"

    request_id: orm.Mapped[str] = orm.mapped_column(exact_text(64), primary_key=True)
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    answer: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    counted_from: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow(), index=True)
    refused: orm.Mapped[bool] = orm.mapped_column(default=False)


class Message(Base):
    """A message to a user about an operation that failed after it had been accepted."""

    __tablename__ = "messages"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    project_id: orm.Mapped[str] = orm.mapped_column(exact_text(255), index=True)
    request_id: orm.Mapped[str] = orm.mapped_column(exact_text(64), default="")
    resource_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    resource_type: orm.Mapped[str] = orm.mapped_column(exact_text(32), default="VOLUME")
    event: orm.Mapped[str] = orm.mapped_column(exact_text(64))
    level: orm.Mapped[str] = orm.mapped_column(exact_text(16), default="ERROR")
    text: orm.Mapped[str] = orm.mapped_column(FreeText())
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
