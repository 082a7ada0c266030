# SPDX-License-Identifier: Apache-2.0
"""The systems that move the volumes of plans

MariaDB commits each statement, so a migration that was interrupted finds some of its columns.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import exact_text

revision = "moves_0003"
down_revision = "moves_0002"


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    columns = {
        (table, column["name"]) for table in ("move_plans", "move_steps") for column in inspector.get_columns(table)
    }
    if ("move_plans", "mover") not in columns:
        op.add_column("move_plans", sa.Column("mover", exact_text(32), nullable=False, server_default=""))
    if ("move_plans", "mover_options") not in columns:
        op.add_column("move_plans", sa.Column("mover_options", sa.JSON(), nullable=True))
    if ("move_steps", "volume_state") not in columns:
        op.add_column("move_steps", sa.Column("volume_state", sa.JSON(), nullable=True))
