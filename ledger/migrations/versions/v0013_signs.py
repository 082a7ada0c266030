# SPDX-License-Identifier: Apache-2.0
"""The time at which schedulers last listened, and the age of figures when they were reported

The migration only adds. Schedulers of the previous release go on recording heartbeats only. The age of figures stays as
it was when a scheduler of this release last applied a report.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    if "last_listened_at" not in {column["name"] for column in inspector.get_columns("services")}:
        moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
        op.add_column("services", sa.Column("last_listened_at", moment, nullable=True))
    if "report_age" not in {column["name"] for column in inspector.get_columns("backends")}:
        op.add_column("backends", sa.Column("report_age", sa.Double(), nullable=False, server_default="0"))
