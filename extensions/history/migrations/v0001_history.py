# SPDX-License-Identifier: Apache-2.0
"""The history of pools and volume types, and forecasts

MariaDB commits each statement, so a migration that was interrupted finds some of its tables.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Timestamp, Uuid, exact_text

revision = "history_0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "coming_refusals",
        sa.Column("type_id", Uuid, nullable=False),
        sa.Column("made_at", Timestamp, nullable=False),
        sa.Column("known_days", sa.SmallInteger(), nullable=False),
        sa.Column("runs", sa.SmallInteger(), nullable=False),
        sa.Column("refused", sa.SmallInteger(), nullable=False),
        sa.Column("filter", exact_text(255), nullable=True),
        sa.Column("message", exact_text(), nullable=True),
        sa.Column("requests", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("type_id", name="pk_coming_refusals"),
        if_not_exists=True,
    )
    op.create_table(
        "history_turn",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("sampled_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_history_turn"),
        if_not_exists=True,
    )
    op.create_table(
        "pool_forecasts",
        sa.Column("made_on", Timestamp, nullable=False),
        sa.Column("pool_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("bound", exact_text(8), nullable=False),
        sa.Column("known_days", sa.SmallInteger(), nullable=False),
        sa.Column("p10_days", sa.Double(), nullable=True),
        sa.Column("p50_days", sa.Double(), nullable=True),
        sa.Column("p90_days", sa.Double(), nullable=True),
        sa.Column("low_gb", sa.Double(), nullable=True),
        sa.Column("high_gb", sa.Double(), nullable=True),
        sa.Column("hit", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("made_on", "pool_id", "bound", name="pk_pool_forecasts"),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
    op.create_table(
        "pool_history",
        sa.Column("grain", exact_text(11), nullable=False),
        sa.Column("slot", Timestamp, nullable=False),
        sa.Column("pool_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("samples", sa.SmallInteger(), nullable=False),
        sa.Column("total_gb", sa.Double(), nullable=True),
        sa.Column("used_gb", sa.Double(), nullable=True),
        sa.Column("used_min_gb", sa.Double(), nullable=True),
        sa.Column("used_max_gb", sa.Double(), nullable=True),
        sa.Column("provisioned_gb", sa.Double(), nullable=True),
        sa.Column("physical_limit_gb", sa.Double(), nullable=True),
        sa.Column("virtual_limit_gb", sa.Double(), nullable=True),
        sa.Column("in_flight_max_gb", sa.BigInteger(), nullable=False),
        sa.Column("allocated_gb", sa.BigInteger(), nullable=False),
        sa.Column("created_gb", sa.BigInteger(), nullable=False),
        sa.Column("deleted_gb", sa.BigInteger(), nullable=False),
        sa.Column("moved_gb", sa.BigInteger(), nullable=False),
        sa.Column("deleted_sum_gb", sa.BigInteger(), nullable=False),
        sa.Column("moved_sum_gb", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("grain", "slot", "pool_id", name="pk_pool_history"),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
    op.create_table(
        "type_history",
        sa.Column("grain", exact_text(11), nullable=False),
        sa.Column("slot", Timestamp, nullable=False),
        sa.Column("type_id", Uuid, nullable=False),
        sa.Column("samples", sa.SmallInteger(), nullable=False),
        sa.Column("volumes", sa.BigInteger(), nullable=False),
        sa.Column("allocated_gb", sa.BigInteger(), nullable=False),
        sa.Column("creates", sa.BigInteger(), nullable=False),
        sa.Column("created_gb", sa.BigInteger(), nullable=False),
        sa.Column("deleted_gb", sa.BigInteger(), nullable=False),
        sa.Column("retyped_gb", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("grain", "slot", "type_id", name="pk_type_history"),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
