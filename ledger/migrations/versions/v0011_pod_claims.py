# SPDX-License-Identifier: Apache-2.0
"""The pods of claims on Kubernetes storage

The migration only adds. Claims that processes of the previous release make for pods have no pod here, and end with
their lease.
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
