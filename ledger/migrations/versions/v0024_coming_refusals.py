# SPDX-License-Identifier: Apache-2.0
"""The refusals to come of each volume type

The migration only adds. Schedulers of the previous release do not expect refusals.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0024"
down_revision = "0023"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "coming_refusals",
        sa.Column("type_id", sa.String(length=36), nullable=False),
        sa.Column("made_at", _TIMESTAMP, nullable=False),
        *(sa.Column(name, sa.SmallInteger(), nullable=False) for name in ("known_days", "runs", "refused")),
        sa.Column("filter", sa.String(length=255), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("requests", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("type_id", name=op.f("pk_coming_refusals")),
        if_not_exists=True,
    )
