# SPDX-License-Identifier: Apache-2.0
"""The numbers of the changes of claims, and the volumes that claims are for

MariaDB commits each statement, so a migration that was interrupted finds some of its columns.
"""

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Uuid, exact_text

revision = "kubernetes_0004"
down_revision = "kubernetes_0003"


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    columns = {
        (table, column["name"]) for table in ("csi_drivers", "csi_claims") for column in inspector.get_columns(table)
    }
    if ("csi_drivers", "claims_version") not in columns:
        op.add_column(
            "csi_drivers", sa.Column("claims_version", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
        )
    if ("csi_claims", "number") not in columns:
        op.add_column("csi_claims", sa.Column("number", sa.BigInteger(), nullable=True))
    if ("csi_claims", "persistent_volume") not in columns:
        op.add_column("csi_claims", sa.Column("persistent_volume", exact_text(253), nullable=True))
    op.create_index("ix_csi_claims_driver_uid_number", "csi_claims", ["driver_uid", "number"], if_not_exists=True)
    # No foreign key: processes of the release before remove drivers without these rows.
    op.create_table(
        "csi_claim_ends",
        sa.Column("driver_uid", Uuid, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", exact_text(255), nullable=False),
        sa.Column("volume", exact_text(255), nullable=False),
        sa.PrimaryKeyConstraint("driver_uid", "number", "holder", "volume", name="pk_csi_claim_ends"),
        if_not_exists=True,
    )
