# SPDX-License-Identifier: Apache-2.0
"""The node of a Galera cluster through which the ledger is written

The migration only adds. Processes of the previous release do not notice a change of the node: upgrade them all.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "writer_slots",
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.String(length=511), nullable=False),
        sa.Column("uses", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("slot", name=op.f("pk_writer_slots")),
        if_not_exists=True,
    )
