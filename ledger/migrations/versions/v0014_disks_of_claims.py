# SPDX-License-Identifier: Apache-2.0
"""The disks of the pools in which capacity was claimed for pods

The migration only adds. A claim made by a process of the previous release has a pool only: it counts while that pool
exists, as before.
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
