# SPDX-License-Identifier: Apache-2.0
"""The first schema"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _name(length: int) -> sa.String:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "backends",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", _name(255), nullable=False),
        sa.Column("driver", sa.String(length=255), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=False),
        sa.Column("allocated_capacity_gb", sa.BigInteger(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=255), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("nonce", sa.String(length=64), nullable=False),
        sa.Column("report_seq", sa.BigInteger(), nullable=False),
        sa.Column("report_covers", sa.BigInteger(), nullable=False),
        sa.Column("last_report_at", _TIMESTAMP, nullable=True),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backends")),
        sa.UniqueConstraint("name", name=op.f("uq_backends_name")),
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("resource_id", sa.String(length=36), nullable=False),
        sa.Column("resource_type", sa.String(length=32), nullable=False),
        sa.Column("event", sa.String(length=64), nullable=False),
        sa.Column("level", sa.String(length=16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index(op.f("ix_messages_project_id"), "messages", ["project_id"], unique=False)
    op.create_index(op.f("ix_messages_resource_id"), "messages", ["resource_id"], unique=False)

    op.create_table(
        "request_keys",
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("volume_id", sa.String(length=36), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=False),
        sa.Column("counted_from", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("request_id", name=op.f("pk_request_keys")),
    )
    op.create_index(op.f("ix_request_keys_counted_from"), "request_keys", ["counted_from"], unique=False)
    op.create_index(op.f("ix_request_keys_volume_id"), "request_keys", ["volume_id"], unique=False)

    op.create_table(
        "services",
        sa.Column("binary", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=False),
        sa.Column("last_seen_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("binary", "host", name=op.f("pk_services")),
    )
    op.create_table(
        "volume_types",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", _name(255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_types")),
        sa.UniqueConstraint("name", name=op.f("uq_volume_types_name")),
    )
    op.create_table(
        "pools",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("name", _name(511), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.Column("allocated_capacity_gb", sa.BigInteger(), nullable=False),
        sa.Column("in_flight_gb", sa.BigInteger(), nullable=False),
        sa.Column("in_flight_physical_gb", sa.BigInteger(), nullable=False),
        sa.Column("total_capacity_gb", sa.Double(), nullable=True),
        sa.Column("free_capacity_gb", sa.Double(), nullable=True),
        sa.Column("provisioned_capacity_gb", sa.Double(), nullable=True),
        sa.Column("ratio", sa.Double(), nullable=False),
        sa.Column("thin_limit_gb", sa.Double(), nullable=True),
        sa.Column("physical_limit_gb", sa.Double(), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("covers_epoch", sa.Integer(), nullable=False),
        sa.Column("covers_tick", sa.BigInteger(), nullable=False),
        sa.Column("reported_at", _TIMESTAMP, nullable=True),
        sa.Column("stats", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["backend_id"], ["backends.id"], name=op.f("fk_pools_backend_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pools")),
        sa.UniqueConstraint("name", name=op.f("uq_pools_name")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_pools_backend_id"), "pools", ["backend_id"], unique=False)

    op.create_table(
        "volume_type_extra_specs",
        sa.Column("volume_type_id", sa.String(length=36), nullable=False),
        sa.Column("key", _name(255), nullable=False),
        sa.Column("value", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["volume_type_id"],
            ["volume_types.id"],
            name=op.f("fk_volume_type_extra_specs_volume_type_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("volume_type_id", "key", name=op.f("pk_volume_type_extra_specs")),
    )
    op.create_table(
        "claims",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("volume_id", sa.String(length=36), nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("pool_id", sa.Integer(), nullable=False),
        sa.Column("verb", sa.String(length=8), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("physical_gb", sa.Integer(), nullable=False),
        sa.Column("target_size_gb", sa.Integer(), nullable=False),
        sa.Column("provisioning", sa.String(length=8), nullable=False),
        sa.Column("contained", sa.Boolean(), nullable=False),
        sa.Column("end_epoch", sa.Integer(), nullable=True),
        sa.Column("end_tick", sa.BigInteger(), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(["backend_id"], ["backends.id"], name=op.f("fk_claims_backend_id")),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name=op.f("fk_claims_pool_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_claims")),
    )
    op.create_index("ix_claims_backend_id_contained", "claims", ["backend_id", "contained"], unique=False)
    op.create_index(op.f("ix_claims_state"), "claims", ["state"], unique=False)
    op.create_index("ix_claims_pool_id_contained", "claims", ["pool_id", "contained"], unique=False)
    op.create_index(op.f("ix_claims_volume_id"), "claims", ["volume_id"], unique=False)

    op.create_table(
        "volumes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=True),
        sa.Column("volume_type_id", sa.String(length=36), nullable=True),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("requested_zone", sa.String(length=255), nullable=True),
        sa.Column("pool_id", sa.Integer(), nullable=True),
        sa.Column("provisioning", sa.String(length=8), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("hints", sa.JSON(), nullable=False),
        sa.Column("attempted_pools", sa.JSON(), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.Column("updated_at", _TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name=op.f("fk_volumes_pool_id")),
        sa.ForeignKeyConstraint(["volume_type_id"], ["volume_types.id"], name=op.f("fk_volumes_volume_type_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volumes")),
    )
    op.create_index(op.f("ix_volumes_pool_id"), "volumes", ["pool_id"], unique=False)
    op.create_index("ix_volumes_project_id_created_at", "volumes", ["project_id", "created_at", "id"], unique=False)
    op.create_index(op.f("ix_volumes_status"), "volumes", ["status"], unique=False)
    op.create_index(op.f("ix_volumes_volume_type_id"), "volumes", ["volume_type_id"], unique=False)
