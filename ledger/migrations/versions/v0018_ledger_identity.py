# SPDX-License-Identifier: Apache-2.0
"""The identity of the ledger, with which agents mark their storage

The migration only adds. The first scheduler of this release gives the ledger its id.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0018"
down_revision = "0017"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "ledger_identity",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ledger_id", sa.String(length=36), nullable=False),
        sa.Column("copied_to", sa.String(length=255), nullable=True),
        sa.Column("copied_at", _TIMESTAMP, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_identity")),
        if_not_exists=True,
    )
