# SPDX-License-Identifier: Apache-2.0
"""The CSIStorageCapacity objects that figures come from

MariaDB commits each statement, so a migration that was interrupted finds some of its columns.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import exact_text

revision = "kubernetes_0002"
down_revision = "kubernetes_0001"


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    columns = {
        (table, column["name"]) for table in ("csi_drivers", "csi_pools") for column in inspector.get_columns(table)
    }
    if ("csi_drivers", "objects_version") not in columns:
        op.add_column("csi_drivers", sa.Column("objects_version", sa.BigInteger(), nullable=True))
    if ("csi_pools", "object_name") not in columns:
        op.add_column("csi_pools", sa.Column("object_name", exact_text(512), nullable=True))
    if ("csi_pools", "object_version") not in columns:
        op.add_column("csi_pools", sa.Column("object_version", sa.BigInteger(), nullable=True))
