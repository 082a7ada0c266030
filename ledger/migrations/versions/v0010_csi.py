# SPDX-License-Identifier: Apache-2.0
"""Storage of Kubernetes clusters: drivers, their pools, and claims on these

The migration only adds tables. Processes of the previous release go on without.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0010"
down_revision = "0009"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _name(length: int) -> sa.String:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "csi_drivers",
        sa.Column("uid", sa.String(length=36), nullable=False),
        sa.Column("name", _name(253), nullable=False),
        sa.Column("capacity_tracking", sa.Boolean(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("layout", sa.BigInteger(), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_csi_drivers")),
        sa.UniqueConstraint("name", name=op.f("uq_csi_drivers_name")),
        if_not_exists=True,
    )
    op.create_table(
        "csi_storages",
        sa.Column("driver_uid", sa.String(length=36), nullable=False),
        sa.Column("storage_class", _name(253), nullable=False),
        sa.ForeignKeyConstraint(["driver_uid"], ["csi_drivers.uid"], name=op.f("fk_csi_storages_driver_uid")),
        sa.PrimaryKeyConstraint("driver_uid", "storage_class", name=op.f("pk_csi_storages")),
        if_not_exists=True,
    )
    op.create_table(
        "csi_pools",
        sa.Column("driver_uid", sa.String(length=36), nullable=False),
        sa.Column("storage_class", _name(253), nullable=False),
        sa.Column("name", _name(253), nullable=False),
        sa.Column("node_topology", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("node_list", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("capacity", sa.BigInteger(), nullable=True),
        sa.Column("maximum_volume_size", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", _TIMESTAMP, nullable=True),
        sa.Column("backing_id", _name(253), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["driver_uid"], ["csi_drivers.uid"], name=op.f("fk_csi_pools_driver_uid")),
        sa.PrimaryKeyConstraint("driver_uid", "storage_class", "name", name=op.f("pk_csi_pools")),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_csi_pools_driver_uid_version"), "csi_pools", ["driver_uid", "version"], if_not_exists=True)
    op.create_table(
        "csi_claims",
        sa.Column("holder", _name(255), nullable=False),
        sa.Column("volume", _name(255), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("driver_uid", sa.String(length=36), nullable=False),
        sa.Column("storage_class", _name(253), nullable=False),
        sa.Column("pool", _name(253), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", _TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(["driver_uid"], ["csi_drivers.uid"], name=op.f("fk_csi_claims_driver_uid")),
        sa.PrimaryKeyConstraint("holder", "volume", name=op.f("pk_csi_claims")),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_csi_claims_driver_uid"), "csi_claims", ["driver_uid"], if_not_exists=True)
