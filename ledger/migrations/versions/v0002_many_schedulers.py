# SPDX-License-Identifier: Apache-2.0
"""Shared storages, migrations, draining, and the settings of schedulers

The migration only adds. New columns have defaults where the previous release writes rows, so its processes may go on
until they are replaced.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _name(length: int) -> sa.String:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "storages",
        sa.Column("name", _name(255), nullable=False),
        sa.Column("stamp", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_storages")),
    )
    op.create_table(
        "discrepancies",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pool_id", sa.Integer(), nullable=False),
        sa.Column("volume_id", _name(255), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("listed_gb", sa.Double(), nullable=False),
        sa.Column("ledger_gb", sa.Double(), nullable=False),
        sa.Column("seen_at", _TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name=op.f("fk_discrepancies_pool_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_discrepancies")),
        sa.UniqueConstraint("pool_id", "volume_id", name="uq_discrepancies_pool_id_volume_id"),
    )
    op.create_table(
        "rules",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("default_ratio", sa.String(length=32), nullable=False),
        sa.Column("calculation", sa.String(length=16), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rules")),
    )
    op.add_column("backends", sa.Column("rules_generation", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("backends", sa.Column("draining", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("backends", sa.Column("rpc_version", sa.String(length=16), server_default="1.0", nullable=False))
    op.add_column("backends", sa.Column("last_listing_at", _TIMESTAMP, nullable=True))

    op.add_column("pools", sa.Column("covers_stamp", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("pools", sa.Column("storage_id", _name(255), nullable=True))
    op.add_column("pools", sa.Column("storage_free_gb", sa.Double(), nullable=True))
    op.add_column("pools", sa.Column("shared_allocated_gb", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("pools", sa.Column("shared_in_flight_gb", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column(
        "pools", sa.Column("shared_in_flight_physical_gb", sa.BigInteger(), server_default="0", nullable=False)
    )
    op.add_column("pools", sa.Column("external_gb", sa.Double(), server_default="0", nullable=False))
    op.create_index(op.f("ix_pools_storage_id"), "pools", ["storage_id"], unique=False)

    op.add_column("claims", sa.Column("everywhere", sa.Boolean(), server_default=sa.true(), nullable=False))
    op.add_column("claims", sa.Column("end_stamp", sa.BigInteger(), nullable=True))
    op.add_column("claims", sa.Column("source_pool_id", sa.Integer(), nullable=True))
    op.add_column("claims", sa.Column("reference", sa.String(length=255), nullable=True))
    op.add_column("claims", sa.Column("volume_type_id", sa.String(length=36), nullable=True))
    op.create_index("ix_claims_pool_id_everywhere", "claims", ["pool_id", "everywhere"], unique=False)

    op.add_column("volumes", sa.Column("source_volume_id", sa.String(length=36), nullable=True))
    op.add_column("volumes", sa.Column("migration_status", sa.String(length=32), nullable=True))

    op.add_column("services", sa.Column("default_ratio", sa.String(length=32), nullable=True))
    op.add_column("services", sa.Column("calculation", sa.String(length=16), nullable=True))
    op.add_column("services", sa.Column("rpc_version", sa.String(length=16), server_default="1.0", nullable=False))
