# SPDX-License-Identifier: Apache-2.0
"""Which listing of a backend was recorded last

It adds. Schedulers of the previous release record listings in the order in which they arrive, as they did, and open
epochs without telling of them here: so a tick stands beside its epoch.
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
