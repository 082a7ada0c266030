# SPDX-License-Identifier: Apache-2.0
"""Plans of moves that are carried out

MariaDB commits each statement, so a migration that was interrupted finds some of its tables.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Timestamp, Uuid, exact_text

revision = "moves_0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "move_plans",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("goal", exact_text(255), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("summary", exact_text(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("project_id", exact_text(255), nullable=False),
        sa.Column("user_id", exact_text(255), nullable=False),
        sa.Column("state", exact_text(8), nullable=False),
        sa.Column("message", exact_text(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("stalls", sa.Integer(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("progress_at", Timestamp, nullable=False),
        sa.Column("next_plan_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_move_plans"),
        if_not_exists=True,
    )
    op.create_index("ix_move_plans_created_at", "move_plans", ["created_at", "id"], if_not_exists=True)
    op.create_index("ix_move_plans_state", "move_plans", ["state"], if_not_exists=True)
    op.create_table(
        "move_steps",
        sa.Column("plan_id", Uuid, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("volume_id", Uuid, nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("source", exact_text(511), nullable=False),
        sa.Column("target", exact_text(511), nullable=False),
        sa.Column("after_steps", sa.JSON(), nullable=False),
        sa.Column("reason", exact_text(), nullable=False),
        sa.Column("state", exact_text(8), nullable=False),
        sa.Column("message", exact_text(), nullable=True),
        sa.Column("started_at", Timestamp, nullable=True),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(["plan_id"], ["move_plans.id"], name="fk_move_steps_plan_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("plan_id", "number", name="pk_move_steps"),
        if_not_exists=True,
    )
    op.create_index("ix_move_steps_state", "move_steps", ["state"], if_not_exists=True)
    op.create_table(
        "move_plan_pools",
        sa.Column("pool", exact_text(511), nullable=False),
        sa.Column("plan_id", Uuid, nullable=False),
        sa.ForeignKeyConstraint(["plan_id"], ["move_plans.id"], name="fk_move_plan_pools_plan_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("pool", name="pk_move_plan_pools"),
        if_not_exists=True,
    )
    op.create_index("ix_move_plan_pools_plan_id", "move_plan_pools", ["plan_id"], if_not_exists=True)
