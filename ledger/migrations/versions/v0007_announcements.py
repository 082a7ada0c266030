# SPDX-License-Identifier: Apache-2.0
"""Notifications that wait to be sent, and the pools that are over their limits

The migration only adds. Schedulers of the previous release go on without: they send no notifications.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0007"
down_revision = "0006"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    exact = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")
    op.create_table(
        "announcements",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("message_id", sa.String(length=36), nullable=False),
        sa.Column("channel", sa.String(length=64), nullable=False),
        sa.Column("event_type", sa.String(length=64), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_announcements")),
        sa.UniqueConstraint("message_id", name=op.f("uq_announcements_message_id")),
        if_not_exists=True,
    )
    op.create_index("ix_announcements_channel_id", "announcements", ["channel", "id"], unique=False, if_not_exists=True)
    op.create_table(
        "announcement_leases",
        sa.Column("channel", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=255).with_variant(exact, "mysql", "mariadb"), nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("leased_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("channel", name=op.f("pk_announcement_leases")),
        if_not_exists=True,
    )
    columns = sa.inspect(op.get_bind()).get_columns("pools")
    if not any(column["name"] == "exceeded_at" for column in columns):
        op.add_column("pools", sa.Column("exceeded_at", _TIMESTAMP, nullable=True))
    op.create_index(
        "ix_pools_backend_id_exceeded_at", "pools", ["backend_id", "exceeded_at"], unique=False, if_not_exists=True
    )
