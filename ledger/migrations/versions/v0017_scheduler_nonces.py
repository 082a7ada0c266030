# SPDX-License-Identifier: Apache-2.0
"""A nonce of each scheduler process: two with the same host notice each other

The migration only adds. Schedulers of the previous release write no nonce.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    if "nonce" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("services")}:
        op.add_column("services", sa.Column("nonce", sa.String(32), nullable=True))
