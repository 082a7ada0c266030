# SPDX-License-Identifier: Apache-2.0
"""Backends without agents, whose volumes are those of another system

The migration only adds. Schedulers of the previous release must not share the ledger of an observed backend.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0025"
down_revision = "0024"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    known = {column["name"] for column in inspector.get_columns("backends")}
    if "observed" not in known:
        op.add_column("backends", sa.Column("observed", sa.Boolean(), nullable=False, server_default=sa.false()))
    if "last_probe" not in known:
        op.add_column("backends", sa.Column("last_probe", sa.BigInteger(), nullable=False, server_default="0"))
    if "probed_at" not in known:
        op.add_column("backends", sa.Column("probed_at", _TIMESTAMP, nullable=True))
    if "sent" not in {column["name"] for column in inspector.get_columns("claims")}:
        op.add_column("claims", sa.Column("sent", sa.Boolean(), nullable=False, server_default=sa.true()))
