# SPDX-License-Identifier: Apache-2.0
"""The tables of Cinder's database that quotas are counted from, with the columns that are used.

They are the same in all releases in which Tonnage runs.
"""

import datetime

import sqlalchemy as sa

_METADATA = sa.MetaData()

VOLUMES = sa.Table(
    "volumes",
    _METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("project_id", sa.String(255)),
    sa.Column("volume_type_id", sa.String(36)),
    sa.Column("size", sa.Integer),
    sa.Column("status", sa.String(255)),
    sa.Column("previous_status", sa.String(255)),
    sa.Column("migration_status", sa.String(255)),
    sa.Column("use_quota", sa.Boolean),
    sa.Column("deleted", sa.Boolean),
)
SNAPSHOTS = sa.Table(
    "snapshots",
    _METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("project_id", sa.String(255)),
    sa.Column("volume_id", sa.String(36)),
    sa.Column("volume_size", sa.Integer),
    sa.Column("status", sa.String(255)),
    sa.Column("use_quota", sa.Boolean),
    sa.Column("deleted", sa.Boolean),
)
BACKUPS = sa.Table(
    "backups",
    _METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("project_id", sa.String(255)),
    sa.Column("size", sa.Integer),
    sa.Column("status", sa.String(255)),
    sa.Column("deleted", sa.Boolean),
)
GROUPS = sa.Table(
    "groups",
    _METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("project_id", sa.String(255)),
    sa.Column("deleted", sa.Boolean),
)
VOLUME_TYPES = sa.Table(
    "volume_types",
    _METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(255)),
    sa.Column("deleted", sa.Boolean),
)
USAGES = sa.Table(
    "quota_usages",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("project_id", sa.String(255)),
    sa.Column("resource", sa.String(300)),
    sa.Column("in_use", sa.Integer),
    sa.Column("reserved", sa.Integer),
    sa.Column("until_refresh", sa.Integer),
    sa.Column("race_preventer", sa.Boolean),
    sa.Column("created_at", sa.DateTime),
    sa.Column("deleted", sa.Boolean),
)
RESERVATIONS = sa.Table(
    "reservations",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36)),
    sa.Column("usage_id", sa.Integer),
    sa.Column("project_id", sa.String(255)),
    sa.Column("resource", sa.String(300)),
    sa.Column("delta", sa.Integer),
    sa.Column("expire", sa.DateTime),
    sa.Column("created_at", sa.DateTime),
    sa.Column("deleted", sa.Boolean),
)


def clock(dialect: str, seconds_ago: float = 0.0) -> sa.ColumnElement[datetime.datetime]:
    """Return the database's clock in UTC, less some seconds."""
    if dialect == "sqlite":
        return sa.func.strftime("%Y-%m-%d %H:%M:%f", "now", f"-{seconds_ago} seconds", type_=sa.DateTime())
    if dialect == "postgresql":
        now: sa.ColumnElement[datetime.datetime] = sa.func.timezone(
            "utc", sa.func.clock_timestamp(), type_=sa.DateTime()
        )
        return now - datetime.timedelta(seconds=seconds_ago)
    return sa.func.timestampadd(sa.text("SECOND"), -seconds_ago, sa.func.utc_timestamp(), type_=sa.DateTime())
