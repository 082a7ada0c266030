# SPDX-License-Identifier: Apache-2.0
"""The allocations that were sent to Placement

MariaDB commits each statement, so a migration that was interrupted finds some of its tables.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Uuid, exact_text

revision = "placement_0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "placement_allocations",
        sa.Column("consumer_id", Uuid, nullable=False),
        sa.Column("consumer_type", exact_text(16), nullable=False),
        sa.Column("volume_id", Uuid, nullable=False),
        sa.Column("pool_id", sa.Integer(), nullable=False),
        sa.Column("project_id", exact_text(255), nullable=False),
        sa.Column("user_id", exact_text(255), nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("doubt", Uuid, nullable=True),
        sa.PrimaryKeyConstraint("consumer_id", name="pk_placement_allocations"),
        if_not_exists=True,
    )
    op.create_index("ix_placement_allocations_pool_id", "placement_allocations", ["pool_id"], if_not_exists=True)
    op.create_index("ix_placement_allocations_project_id", "placement_allocations", ["project_id"], if_not_exists=True)
    op.create_index("ix_placement_allocations_volume_id", "placement_allocations", ["volume_id"], if_not_exists=True)
