# SPDX-License-Identifier: Apache-2.0
"""The outcome of plans, the volumes that stay, the levels of pools, and the sums of ended plans

MariaDB commits each statement, so a migration that was interrupted finds some of its columns and tables.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Uuid, exact_text

revision = "moves_0002"
down_revision = "moves_0001"


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    columns = {
        (table, column["name"]) for table in ("move_plans", "move_steps") for column in inspector.get_columns(table)
    }
    if ("move_plans", "outcome") not in columns:
        op.add_column("move_plans", sa.Column("outcome", exact_text(), nullable=True))
    if ("move_plans", "is_reached") not in columns:
        op.add_column("move_plans", sa.Column("is_reached", sa.Boolean(), nullable=True))
    if ("move_steps", "source_level") not in columns:
        op.add_column("move_steps", sa.Column("source_level", sa.JSON(), nullable=True))
    if ("move_steps", "target_level") not in columns:
        op.add_column("move_steps", sa.Column("target_level", sa.JSON(), nullable=True))
    op.create_index("ix_move_plans_ended_at", "move_plans", ["ended_at"], if_not_exists=True)
    op.create_index("ix_move_steps_ended_at", "move_steps", ["state", "ended_at"], if_not_exists=True)
    op.create_table(
        "move_plan_staying",
        sa.Column("plan_id", Uuid, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("volume_id", Uuid, nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("pool", exact_text(511), nullable=False),
        sa.Column("reason", exact_text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["plan_id"], ["move_plans.id"], name="fk_move_plan_staying_plan_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("plan_id", "number", name="pk_move_plan_staying"),
        if_not_exists=True,
    )
    op.create_table(
        "move_plan_levels",
        sa.Column("plan_id", Uuid, nullable=False),
        sa.Column("pool", exact_text(511), nullable=False),
        sa.Column("level_before", sa.JSON(), nullable=False),
        sa.Column("level_after", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["plan_id"], ["move_plans.id"], name="fk_move_plan_levels_plan_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("plan_id", "pool", name="pk_move_plan_levels"),
        if_not_exists=True,
    )
    op.create_table(
        "move_plan_sums",
        sa.Column("plan_id", Uuid, nullable=False),
        sa.Column("state", exact_text(8), nullable=False),
        sa.Column("moves", sa.Integer(), nullable=False),
        sa.Column("size_gb", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["plan_id"], ["move_plans.id"], name="fk_move_plan_sums_plan_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("plan_id", "state", name="pk_move_plan_sums"),
        if_not_exists=True,
    )
