# SPDX-License-Identifier: Apache-2.0
"""The claims that are not subtracted from published capacity

MariaDB commits each statement, so a migration that was interrupted finds the column.
"""

import sqlalchemy as sa
from alembic import op

revision = "kubernetes_0003"
down_revision = "kubernetes_0002"


def upgrade() -> None:
    columns = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("csi_claims")}
    if "unpublished" not in columns:
        op.add_column("csi_claims", sa.Column("unpublished", sa.Boolean(), nullable=True))
