# SPDX-License-Identifier: Apache-2.0
"""Pools without usable figures in the last report, and the age of the figures that they keep

The migration only adds. A report that a scheduler of the previous release applies renews the figures of all pools, as
before.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("pools")}
    moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    for name in ("figures_at", "unheard_at"):
        if name not in known:
            op.add_column("pools", sa.Column(name, moment, nullable=True))
