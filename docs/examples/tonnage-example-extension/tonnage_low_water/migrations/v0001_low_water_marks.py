# SPDX-License-Identifier: Apache-2.0
"""The table of low-water marks"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Timestamp, exact_text

revision = "low_water_0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "low_water_marks",
        sa.Column("pool", exact_text(255), nullable=False),
        sa.Column("free_gb", sa.Double(), nullable=False),
        sa.Column("reported_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("pool", name="pk_low_water_marks"),
        if_not_exists=True,
    )
