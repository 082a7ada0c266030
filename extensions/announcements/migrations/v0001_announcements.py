# SPDX-License-Identifier: Apache-2.0
"""The outbox of notifications

MariaDB commits each statement, so a migration that was interrupted finds some of its tables.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Timestamp, Uuid, exact_text

revision = "announcements_0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "announcement_leases",
        sa.Column("channel", exact_text(64), nullable=False),
        sa.Column("owner", exact_text(255), nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("leased_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("channel", name="pk_announcement_leases"),
        if_not_exists=True,
    )
    op.create_table(
        "announcements",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("message_id", Uuid, nullable=False),
        sa.Column("channel", exact_text(64), nullable=False),
        sa.Column("event_type", exact_text(64), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_announcements"),
        sa.UniqueConstraint("message_id", name="uq_announcements_message_id"),
        if_not_exists=True,
    )
    op.create_index("ix_announcements_channel_id", "announcements", ["channel", "id"], if_not_exists=True)
