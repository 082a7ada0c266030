# SPDX-License-Identifier: Apache-2.0
"""Keys of refused requests, which are kept for a shorter time than others

The migration only adds. Schedulers of the previous release write keys that are kept as long as all others.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    if "refused" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("request_keys")}:
        op.add_column("request_keys", sa.Column("refused", sa.Boolean(), nullable=False, server_default=sa.false()))
