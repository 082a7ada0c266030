# SPDX-License-Identifier: Apache-2.0
"""The storage of Kubernetes clusters, and the claims on it

MariaDB commits each statement, so a migration that was interrupted finds some of its tables.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Timestamp, Uuid, exact_text

revision = "kubernetes_0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "csi_drivers",
        sa.Column("uid", Uuid, nullable=False),
        sa.Column("name", exact_text(253), nullable=False),
        sa.Column("capacity_tracking", sa.Boolean(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("layout", sa.BigInteger(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_csi_drivers"),
        sa.UniqueConstraint("name", name="uq_csi_drivers_name"),
        if_not_exists=True,
    )
    op.create_table(
        "csi_claims",
        sa.Column("holder", exact_text(255), nullable=False),
        sa.Column("volume", exact_text(255), nullable=False),
        sa.Column("node", exact_text(255), nullable=False),
        sa.Column("driver_uid", Uuid, nullable=False),
        sa.Column("storage_class", exact_text(253), nullable=False),
        sa.Column("pool", exact_text(253), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", Timestamp, nullable=False),
        sa.Column("pod", exact_text(512), nullable=True),
        sa.Column("backing_id", exact_text(253), nullable=True),
        sa.Column("capacity", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["driver_uid"], ["csi_drivers.uid"], name="fk_csi_claims_driver_uid"),
        sa.PrimaryKeyConstraint("holder", "volume", name="pk_csi_claims"),
        if_not_exists=True,
    )
    op.create_index("ix_csi_claims_driver_uid", "csi_claims", ["driver_uid"], if_not_exists=True)
    op.create_table(
        "csi_pools",
        sa.Column("driver_uid", Uuid, nullable=False),
        sa.Column("storage_class", exact_text(253), nullable=False),
        sa.Column("name", exact_text(253), nullable=False),
        sa.Column("node_topology", sa.JSON(), nullable=True),
        sa.Column("node_list", sa.JSON(), nullable=True),
        sa.Column("capacity", sa.BigInteger(), nullable=True),
        sa.Column("maximum_volume_size", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", Timestamp, nullable=True),
        sa.Column("backing_id", exact_text(253), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["driver_uid"], ["csi_drivers.uid"], name="fk_csi_pools_driver_uid"),
        sa.PrimaryKeyConstraint("driver_uid", "storage_class", "name", name="pk_csi_pools"),
        if_not_exists=True,
    )
    op.create_index("ix_csi_pools_driver_uid_version", "csi_pools", ["driver_uid", "version"], if_not_exists=True)
    op.create_table(
        "csi_storages",
        sa.Column("driver_uid", Uuid, nullable=False),
        sa.Column("storage_class", exact_text(253), nullable=False),
        sa.ForeignKeyConstraint(["driver_uid"], ["csi_drivers.uid"], name="fk_csi_storages_driver_uid"),
        sa.PrimaryKeyConstraint("driver_uid", "storage_class", name="pk_csi_storages"),
        if_not_exists=True,
    )
