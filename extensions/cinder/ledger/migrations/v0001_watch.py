# SPDX-License-Identifier: Apache-2.0
"""The record of the shadow beside Cinder's schedulers

MariaDB commits each statement, so a migration that was interrupted finds some of its tables.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Timestamp, Uuid, exact_text

revision = "cinder_0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "cinder_decisions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("decided_at", Timestamp, nullable=False),
        sa.Column("verb", exact_text(32), nullable=False),
        sa.Column("request_id", exact_text(64), nullable=False),
        sa.Column("volume_id", Uuid, nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("pool", exact_text(511), nullable=True),
        sa.Column("verdict", exact_text(32), nullable=False),
        sa.Column("tonnage_pool", exact_text(511), nullable=True),
        sa.Column("reason", exact_text(), nullable=False),
        sa.Column("cinder_seconds", sa.Double(), nullable=True),
        sa.Column("tonnage_seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cinder_decisions"),
        if_not_exists=True,
    )
    op.create_index("ix_cinder_decisions_decided_at", "cinder_decisions", ["decided_at"], if_not_exists=True)
    op.create_index("ix_cinder_decisions_verdict", "cinder_decisions", ["verdict"], if_not_exists=True)
    op.create_index("ix_cinder_decisions_volume_id", "cinder_decisions", ["volume_id"], if_not_exists=True)
    op.create_table(
        "cinder_findings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("category", exact_text(32), nullable=False),
        sa.Column("subject", exact_text(511), nullable=False),
        sa.Column("code", exact_text(64), nullable=False),
        sa.Column("text", exact_text(), nullable=False),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.Column("volumes", sa.JSON(), nullable=False),
        sa.Column("found_at", Timestamp, nullable=False),
        sa.Column("seen_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_cinder_findings"),
        if_not_exists=True,
    )
