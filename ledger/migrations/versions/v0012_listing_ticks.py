# SPDX-License-Identifier: Apache-2.0
"""The epoch and tick of a backend's last recorded listing

The migration only adds. Schedulers of the previous release record listings in the order of their arrival, as before.
They also open epochs without changing these columns, so a tick is stored with its epoch.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("backends")}
    for name in ("listing_epoch", "listing_tick"):
        if name not in known:
            op.add_column("backends", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
