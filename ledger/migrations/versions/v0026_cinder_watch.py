# SPDX-License-Identifier: Apache-2.0
"""The record of the shadow beside Cinder's schedulers"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0026"
down_revision = "0025"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _pool_name() -> sa.types.TypeEngine[str]:
    exact = mysql.VARCHAR(511, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(length=511).with_variant(exact, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "cinder_decisions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("decided_at", _TIMESTAMP, nullable=False),
        sa.Column("verb", sa.String(length=32), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("volume_id", sa.String(length=36), nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("pool", _pool_name(), nullable=True),
        sa.Column("verdict", sa.String(length=32), nullable=False),
        sa.Column("tonnage_pool", _pool_name(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("cinder_seconds", sa.Double(), nullable=True),
        sa.Column("tonnage_seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cinder_decisions")),
        if_not_exists=True,
    )
    for column in ("decided_at", "volume_id", "verdict"):
        op.create_index(op.f(f"ix_cinder_decisions_{column}"), "cinder_decisions", [column], if_not_exists=True)
    op.create_table(
        "cinder_findings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("subject", _pool_name(), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.Column("volumes", sa.JSON(), nullable=False),
        sa.Column("found_at", _TIMESTAMP, nullable=False),
        sa.Column("seen_at", _TIMESTAMP, nullable=False),
        sa.Column("ended_at", _TIMESTAMP, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cinder_findings")),
        if_not_exists=True,
    )
