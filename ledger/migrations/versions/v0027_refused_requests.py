# SPDX-License-Identifier: Apache-2.0
"""The body of a refused request, so that it can be asked again"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("refusals")}
    if "request_body" not in known:
        op.add_column("refusals", sa.Column("request_body", sa.JSON(none_as_null=True), nullable=True))
