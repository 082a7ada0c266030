# SPDX-License-Identifier: Apache-2.0
"""Which listing of a backend was recorded last

It adds. Schedulers of the previous release record listings in the order in which they arrive, as they did.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    columns = sa.inspect(op.get_bind()).get_columns("backends")
    if not any(column["name"] == "listing_tick" for column in columns):
        op.add_column("backends", sa.Column("listing_tick", sa.BigInteger(), nullable=False, server_default="0"))
