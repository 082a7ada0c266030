# SPDX-License-Identifier: Apache-2.0
"""Tables for the storage of Kubernetes clusters, see :mod:`tonnage.extensions.kubernetes`."""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Timestamp, Uuid, exact_text, utcnow


class CsiDriver(Base):
    """A storage driver of a Kubernetes cluster. Clients of the REST API write its storage.

    A transaction that changes the driver's storage or claims capacity locks this row. ``version`` increases with each
    change, ``layout`` with each change of anything but capacities, sizes and times, ``claims_version`` with each change
    of the claims. ``objects_version`` is the resource version at which the cluster's ``CSIStorageCapacity`` objects
    were read last, None if they have not been.
    """

    __tablename__ = "csi_drivers"

    uid: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(exact_text(253), unique=True)
    capacity_tracking: orm.Mapped[bool | None] = orm.mapped_column()
    version: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=1)
    layout: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=1)
    objects_version: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    claims_version: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0, server_default=sa.text("0"))
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class CsiStorage(Base):
    """The storage of a driver for a storage class, ``<fallback>`` or ``<ephemeral>``. It may have no pools."""

    __tablename__ = "csi_storages"

    driver_uid: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(CsiDriver.uid), primary_key=True)
    storage_class: orm.Mapped[str] = orm.mapped_column(exact_text(253), primary_key=True)


class CsiPool(Base):
    """A pool of such a storage. Sizes are bytes. ``version`` is the driver's version at the last write of this row.

    ``object_name``, ``namespace/name``, and ``object_version`` are those of the ``CSIStorageCapacity`` object that the
    figures come from, None for other figures.
    """

    __tablename__ = "csi_pools"
    __table_args__ = (sa.Index("ix_csi_pools_driver_uid_version", "driver_uid", "version"),)

    driver_uid: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(CsiDriver.uid), primary_key=True)
    storage_class: orm.Mapped[str] = orm.mapped_column(exact_text(253), primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(exact_text(253), primary_key=True)
    node_topology: orm.Mapped[dict[str, Any] | None] = orm.mapped_column(sa.JSON(none_as_null=True))
    node_list: orm.Mapped[list[str] | None] = orm.mapped_column(sa.JSON(none_as_null=True))
    capacity: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    maximum_volume_size: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    expires_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    backing_id: orm.Mapped[str | None] = orm.mapped_column(exact_text(253))
    object_name: orm.Mapped[str | None] = orm.mapped_column(exact_text(512))
    object_version: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    version: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)


class CsiClaim(Base):
    """A claim on the capacity of such a pool, in bytes. It counts until it is released or expires.

    ``pod`` is ``namespace/name`` of the pod, None for claims of other holders. ``backing_id`` and ``capacity`` are
    those of the pool at the time of the claim, so the claim also counts against the same disks after the pool was
    removed. With ``unpublished`` the claim is not subtracted from published capacity, None means no: kube-scheduler has
    to try its pod again, and compares it with that capacity.

    ``number`` is the driver's ``claims_version`` with which the claim was made, None if the release before made it. A
    renewal does not change it. ``persistent_volume`` is the name of the volume that the claim is for, empty while it is
    being made, None before.
    """

    __tablename__ = "csi_claims"
    __table_args__ = (sa.Index("ix_csi_claims_driver_uid_number", "driver_uid", "number"),)

    holder: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    volume: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    node: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    driver_uid: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(CsiDriver.uid), index=True)
    storage_class: orm.Mapped[str] = orm.mapped_column(exact_text(253))
    pool: orm.Mapped[str] = orm.mapped_column(exact_text(253))
    size: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    expires_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp)
    pod: orm.Mapped[str | None] = orm.mapped_column(exact_text(512))
    backing_id: orm.Mapped[str | None] = orm.mapped_column(exact_text(253))
    capacity: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    unpublished: orm.Mapped[bool | None] = orm.mapped_column()
    number: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    persistent_volume: orm.Mapped[str | None] = orm.mapped_column(exact_text(253))


class CsiClaimEnd(Base):
    """The end of a claim by its holder, with the driver's ``claims_version`` of that change. The last ones are kept.

    A claim whose lease has ended has no such row.
    """

    __tablename__ = "csi_claim_ends"

    driver_uid: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    number: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    holder: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    volume: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
