# SPDX-License-Identifier: Apache-2.0
"""Findings of the audit of drivers

The migration only adds. Schedulers of the previous release go on without: they do not audit.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0008"
down_revision = "0007"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    exact = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")
    op.create_table(
        "findings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("pool", sa.String(length=255).with_variant(exact, "mysql", "mariadb"), nullable=False),
        sa.Column("breach", sa.String(length=32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("once_seq", sa.BigInteger(), nullable=True),
        sa.Column("seen_at", _TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(
            ["backend_id"], ["backends.id"], name=op.f("fk_findings_backend_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_findings")),
        sa.UniqueConstraint("backend_id", "pool", "breach", name="uq_findings_backend_id_pool_breach"),
        if_not_exists=True,
    )
