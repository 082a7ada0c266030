# SPDX-License-Identifier: Apache-2.0
"""Drop the versions of the RPC: all processes speak one

No process of a release needs these columns, as none was released that reads or writes them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    for table in ("backends", "services"):
        if "rpc_version" in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}:
            op.drop_column(table, "rpc_version")
