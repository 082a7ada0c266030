# SPDX-License-Identifier: Apache-2.0
"""Allocations that were sent to OpenStack Placement

The migration only adds. Schedulers of the previous release send nothing; schedulers of this release find the
differences by comparison.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    exact = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")
    name = sa.String(length=255).with_variant(exact, "mysql", "mariadb")
    op.create_table(
        "placement_allocations",
        sa.Column("consumer_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("volume_id", sa.String(length=36), nullable=False),
        sa.Column("pool_id", sa.Integer(), nullable=False),
        sa.Column("project_id", name, nullable=False),
        sa.Column("user_id", name, nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("doubt", sa.String(length=36), nullable=True),
        sa.PrimaryKeyConstraint("consumer_id", name=op.f("pk_placement_allocations")),
        if_not_exists=True,
    )
    for column in ("volume_id", "pool_id", "project_id"):
        op.create_index(
            op.f(f"ix_placement_allocations_{column}"),
            "placement_allocations",
            [column],
            unique=False,
            if_not_exists=True,
        )
