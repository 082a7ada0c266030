# SPDX-License-Identifier: Apache-2.0
"""The volumes of Cinder that move to grow"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Timestamp, Uuid, exact_text

revision = "cinder_0002"
down_revision = "cinder_0001"


def upgrade() -> None:
    op.create_table(
        "cinder_growths",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("volume_id", Uuid, nullable=False),
        sa.Column("request_id", exact_text(64), nullable=False),
        sa.Column("project_id", exact_text(255), nullable=False),
        sa.Column("user_id", exact_text(255), nullable=False),
        sa.Column("source", exact_text(511), nullable=False),
        sa.Column("target", exact_text(511), nullable=False),
        sa.Column("name_id", Uuid, nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("new_size_gb", sa.Integer(), nullable=False),
        sa.Column("reservations", sa.JSON(), nullable=False),
        sa.Column("state", exact_text(16), nullable=False),
        sa.Column("reason", exact_text(), nullable=False),
        sa.Column("owner", Uuid, nullable=False),
        sa.Column("renewed_at", Timestamp, nullable=False),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cinder_growths"),
        if_not_exists=True,
    )
    op.create_index("ix_cinder_growths_volume_id", "cinder_growths", ["volume_id"], if_not_exists=True)
