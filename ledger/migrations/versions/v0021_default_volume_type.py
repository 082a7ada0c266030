# SPDX-License-Identifier: Apache-2.0
"""The volume type of volumes that are created without one

The migration only adds a row. Volumes without a type stay without one. Processes of the previous release do not use the
type.
"""

import datetime
import uuid

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

_NAME = "__DEFAULT__"
_TYPES = sa.table(
    "volume_types",
    sa.column("id", sa.String()),
    sa.column("name", sa.String()),
    sa.column("description", sa.String()),
    sa.column("is_public", sa.Boolean()),
    sa.column("created_at", sa.DateTime()),
)


def upgrade() -> None:
    connection = op.get_bind()
    if connection.scalar(sa.select(_TYPES.c.id).where(_TYPES.c.name == _NAME)) is None:
        connection.execute(
            sa.insert(_TYPES).values(
                id=str(uuid.uuid4()),
                name=_NAME,
                description="Default Volume Type",
                is_public=True,
                created_at=datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
            )
        )
