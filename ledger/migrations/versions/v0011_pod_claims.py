# SPDX-License-Identifier: Apache-2.0
"""Which pod something was claimed for

It adds. What processes of the previous release claim for pods is not known to be for one, and ends with its lease.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    exact = mysql.VARCHAR(512, charset="utf8mb4", collation="utf8mb4_bin")
    name = sa.String(length=512).with_variant(exact, "mysql", "mariadb")
    columns = sa.inspect(op.get_bind()).get_columns("csi_claims")
    if not any(column["name"] == "pod" for column in columns):
        op.add_column("csi_claims", sa.Column("pod", name, nullable=True))
