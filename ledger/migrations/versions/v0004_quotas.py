# SPDX-License-Identifier: Apache-2.0
"""Limits of projects, and counters of their usage

The migration only adds. Schedulers of the previous release know no limits; the volumes that they place count all the
same.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _name(length: int) -> sa.String:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "quota_limits",
        sa.Column("holder", sa.String(length=8), nullable=False),
        sa.Column("name", _name(255), nullable=False),
        sa.Column("user_id", _name(255), nullable=False),
        sa.Column("resource", sa.String(length=32), nullable=False),
        sa.Column("volume_type_id", sa.String(length=36), nullable=False),
        sa.Column("hard_limit", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint(
            "holder", "name", "user_id", "resource", "volume_type_id", name=op.f("pk_quota_limits")
        ),
        if_not_exists=True,
    )
    op.create_index(
        op.f("ix_quota_limits_volume_type_id"), "quota_limits", ["volume_type_id"], unique=False, if_not_exists=True
    )
    op.create_table(
        "quota_usages",
        sa.Column("project_id", _name(255), nullable=False),
        sa.Column("user_id", _name(255), nullable=False),
        sa.Column("volume_type_id", sa.String(length=36), nullable=False),
        sa.Column("volumes", sa.BigInteger(), nullable=False),
        sa.Column("gigabytes", sa.BigInteger(), nullable=False),
        sa.Column("counted_at", _TIMESTAMP, nullable=True),
        sa.PrimaryKeyConstraint("project_id", "user_id", "volume_type_id", name=op.f("pk_quota_usages")),
        if_not_exists=True,
    )
