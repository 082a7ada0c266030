# SPDX-License-Identifier: Apache-2.0
"""QoS specs of volume types, and case-sensitive names of projects

The migration adds tables. Schedulers of the previous release go on without them. On MariaDB, names of projects and
users are compared exactly from now on: with its usual collations the volumes of `Demo` were those of `demo`.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


#: Columns with names of projects and users that were created before such columns were case-sensitive.
_NAMES = (("volumes", "project_id"), ("volumes", "user_id"), ("messages", "project_id"))


def upgrade() -> None:
    exact = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")
    if op.get_bind().dialect.name in ("mysql", "mariadb"):
        for table, column in _NAMES:
            op.alter_column(table, column, type_=exact, existing_nullable=False)
    op.create_table(
        "qos_specs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255).with_variant(exact, "mysql", "mariadb"), nullable=False),
        sa.Column("consumer", sa.String(length=16), nullable=False),
        sa.Column("specs", sa.JSON(), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_qos_specs")),
        sa.UniqueConstraint("name", name=op.f("uq_qos_specs_name")),
        if_not_exists=True,
    )
    op.create_table(
        "volume_type_qos_specs",
        sa.Column("volume_type_id", sa.String(length=36), nullable=False),
        sa.Column("qos_specs_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["volume_type_id"],
            ["volume_types.id"],
            name=op.f("fk_volume_type_qos_specs_volume_type_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["qos_specs_id"], ["qos_specs.id"], name=op.f("fk_volume_type_qos_specs_qos_specs_id")),
        sa.PrimaryKeyConstraint("volume_type_id", name=op.f("pk_volume_type_qos_specs")),
        if_not_exists=True,
    )
    op.create_index(
        op.f("ix_volume_type_qos_specs_qos_specs_id"),
        "volume_type_qos_specs",
        ["qos_specs_id"],
        unique=False,
        if_not_exists=True,
    )
