# SPDX-License-Identifier: Apache-2.0
"""Refusals with their reasons

The migration only adds. Schedulers of the previous release do not record refusals.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0022"
down_revision = "0021"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def _exact_text(length: int) -> sa.String:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "refusals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("refused_at", _TIMESTAMP, nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("volume_id", sa.String(36), nullable=False),
        sa.Column("project_id", _exact_text(255), nullable=False),
        sa.Column("verb", sa.String(8), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("filter", sa.String(255), nullable=False),
        sa.Column("code", sa.String(255), nullable=False),
        sa.Column("pool", _exact_text(511), nullable=True),
        sa.Column("largest_size_gb", sa.Integer(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refusals")),
        if_not_exists=True,
    )
    known = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("refusals")}
    for column in ("volume_id", "pool"):
        if f"ix_refusals_{column}" not in known:
            op.create_index(f"ix_refusals_{column}", "refusals", [column])
