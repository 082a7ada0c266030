# SPDX-License-Identifier: Apache-2.0
"""Which disks the pools had of which something was claimed for pods

It adds. What processes of the previous release claim goes by its pool alone: while that is there, it counts as ever.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("csi_claims")}
    if "backing_id" not in known:
        exact = mysql.VARCHAR(253, charset="utf8mb4", collation="utf8mb4_bin")
        name = sa.String(length=253).with_variant(exact, "mysql", "mariadb")
        op.add_column("csi_claims", sa.Column("backing_id", name, nullable=True))
    if "capacity" not in known:
        op.add_column("csi_claims", sa.Column("capacity", sa.BigInteger(), nullable=True))
