# SPDX-License-Identifier: Apache-2.0
"""Access of projects to private volume types

The migration only adds, so processes of the previous release may go on until they are replaced: for these, only
administrators can use private types.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    exact = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")
    op.create_table(
        "volume_type_access",
        sa.Column("volume_type_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255).with_variant(exact, "mysql", "mariadb"), nullable=False),
        sa.ForeignKeyConstraint(
            ["volume_type_id"],
            ["volume_types.id"],
            name=op.f("fk_volume_type_access_volume_type_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("volume_type_id", "project_id", name=op.f("pk_volume_type_access")),
        if_not_exists=True,
    )
