# SPDX-License-Identifier: Apache-2.0
"""Groups of volumes with their types, and schedulers that an operator has disabled

The migration only adds. Schedulers of the previous release go on without: they place volumes that are in no group.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _name(length: int) -> sa.String:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "group_types",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", _name(255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("specs", sa.JSON(), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_group_types")),
        sa.UniqueConstraint("name", name=op.f("uq_group_types_name")),
        if_not_exists=True,
    )
    op.create_table(
        "groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("project_id", _name(255), nullable=False),
        sa.Column("user_id", _name(255), nullable=False),
        sa.Column("group_type_id", sa.String(length=36), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.Column("updated_at", _TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(["group_type_id"], ["group_types.id"], name=op.f("fk_groups_group_type_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_groups")),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_groups_group_type_id"), "groups", ["group_type_id"], unique=False, if_not_exists=True)
    op.create_index(
        "ix_groups_project_id_created_at",
        "groups",
        ["project_id", "created_at", "id"],
        unique=False,
        if_not_exists=True,
    )
    op.create_table(
        "group_volume_types",
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("volume_type_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.id"], name=op.f("fk_group_volume_types_group_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["volume_type_id"], ["volume_types.id"], name=op.f("fk_group_volume_types_volume_type_id")
        ),
        sa.PrimaryKeyConstraint("group_id", "volume_type_id", name=op.f("pk_group_volume_types")),
        if_not_exists=True,
    )
    op.create_index(
        op.f("ix_group_volume_types_volume_type_id"),
        "group_volume_types",
        ["volume_type_id"],
        unique=False,
        if_not_exists=True,
    )
    if not _has("volumes", "group_id"):
        op.add_column("volumes", sa.Column("group_id", sa.String(length=36), nullable=True))
    op.create_index(op.f("ix_volumes_group_id"), "volumes", ["group_id"], unique=False, if_not_exists=True)
    if not _has("services", "enabled"):
        op.add_column("services", sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False))
    if not _has("services", "disabled_reason"):
        op.add_column("services", sa.Column("disabled_reason", sa.String(length=255), nullable=True))


def _has(table: str, column: str) -> bool:
    """Return True if the column exists: SQLite has no ADD COLUMN IF NOT EXISTS."""
    return any(each["name"] == column for each in sa.inspect(op.get_bind()).get_columns(table))
