# SPDX-License-Identifier: Apache-2.0
"""The history of pools and volume types, and past forecasts

The migration only adds. Schedulers of the previous release do not count deleted and migrated capacity.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0023"
down_revision = "0022"

_TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    _add_counters()
    op.create_table(
        "history_turn",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("sampled_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history_turn")),
        if_not_exists=True,
    )
    op.create_table(
        "pool_history",
        *_slot(sa.Column("pool_id", sa.Integer(), autoincrement=False, nullable=False)),
        *(
            sa.Column(name, sa.Double(), nullable=True)
            for name in (
                *("total_gb", "used_gb", "used_min_gb", "used_max_gb", "provisioned_gb"),
                *("physical_limit_gb", "virtual_limit_gb"),
            )
        ),
        *_numbers(
            *("in_flight_max_gb", "allocated_gb", "created_gb", "deleted_gb", "moved_gb"),
            *("deleted_sum_gb", "moved_sum_gb"),
        ),
        sa.PrimaryKeyConstraint("grain", "slot", "pool_id", name=op.f("pk_pool_history")),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
    op.create_table(
        "type_history",
        *_slot(sa.Column("type_id", sa.String(length=36), nullable=False)),
        *_numbers("volumes", "allocated_gb", "creates", "created_gb", "deleted_gb", "retyped_gb"),
        sa.PrimaryKeyConstraint("grain", "slot", "type_id", name=op.f("pk_type_history")),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
    op.create_table(
        "pool_forecasts",
        sa.Column("made_on", _TIMESTAMP, nullable=False),
        sa.Column("pool_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("bound", sa.String(length=8), nullable=False),
        sa.Column("known_days", sa.SmallInteger(), nullable=False),
        *(
            sa.Column(name, sa.Double(), nullable=True)
            for name in ("p10_days", "p50_days", "p90_days", "low_gb", "high_gb")
        ),
        sa.Column("hit", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("made_on", "pool_id", "bound", name=op.f("pk_pool_forecasts")),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )


def _add_counters() -> None:
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("pools")}
    for name in ("deleted_gb", "moved_gb"):
        if name not in known:
            op.add_column("pools", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def _slot(key: "sa.Column[object]") -> "tuple[sa.Column[object], ...]":
    return (
        sa.Column("grain", sa.String(length=4), nullable=False),
        sa.Column("slot", _TIMESTAMP, nullable=False),
        key,
        sa.Column("samples", sa.SmallInteger(), nullable=False),
    )


def _numbers(*names: str) -> "list[sa.Column[object]]":
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]
