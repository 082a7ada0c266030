# SPDX-License-Identifier: Apache-2.0
"""The history of pools and volume types, and forecasts.

The rows have no foreign keys: an insert must not lock a pool. There are many, so they have no index but their key.
It begins with the time: the rows of a pool are found by a list of times. SQLite keeps them in that index alone.
"""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Timestamp, Uuid, exact_text
from tonnage.ledger.models.free_text import FreeText


class HistoryTurn(Base):
    """The single row that orders the samples of the history: the number of the last one, and its time.

    There is none before the first sample.
    """

    __tablename__ = "history_turn"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    number: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    sampled_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp)


class PoolHistory(Base):
    """The figures of a pool in one slot, which begins at ``slot``. ``grain`` is ``ten_minutes``, ``hour`` or ``day``.

    ``used_gb`` is the physically used capacity, the provisioned capacity contains claims in flight, and the limits are
    those of the two. Except for ``used_min_gb``, ``used_max_gb`` and ``in_flight_max_gb`` figures are those of the last
    of ``samples``; null is unknown, and for a limit: no limit.

    ``created_gb``, ``deleted_gb`` and ``moved_gb`` are the changes in the slot, as far as samples show them. The
    ``_sum_gb`` are the pool's own counters, for differences of any two rows.
    """

    __tablename__ = "pool_history"
    __table_args__ = ({"sqlite_with_rowid": False},)

    grain: orm.Mapped[str] = orm.mapped_column(exact_text(11), primary_key=True)
    slot: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, primary_key=True)
    pool_id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    samples: orm.Mapped[int] = orm.mapped_column(sa.SmallInteger)
    total_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    used_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    used_min_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    used_max_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    provisioned_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    physical_limit_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    virtual_limit_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    in_flight_max_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    allocated_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    created_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    deleted_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    moved_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    deleted_sum_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    moved_sum_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)


class TypeHistory(Base):
    """The volumes of a type in an hour or a day, as in :class:`PoolHistory`; an empty ``type_id`` means no type.

    ``volumes`` and ``allocated_gb`` are at the last sample. ``creates`` are the volumes that were created in the slot
    and still existed at the next sample, ``created_gb`` the sum of these and of extends. ``deleted_gb`` is the other
    loss of the sum, ``retyped_gb`` the other gain.
    """

    __tablename__ = "type_history"
    __table_args__ = ({"sqlite_with_rowid": False},)

    grain: orm.Mapped[str] = orm.mapped_column(exact_text(11), primary_key=True)
    slot: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, primary_key=True)
    type_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    samples: orm.Mapped[int] = orm.mapped_column(sa.SmallInteger)
    volumes: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    allocated_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    creates: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    created_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    deleted_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    retyped_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)


class PoolForecast(Base):
    """The forecast for one bound of a pool that was made on a day, from the history up to the day before.

    ``p10_days``, ``p50_days`` and ``p90_days`` are null if they are more than the horizon; all are null, and
    ``low_gb`` and ``high_gb`` too, if the ``known_days`` of history were too few. The growth in the days after it was
    between ``low_gb`` and ``high_gb`` if ``hit`` is true; null while that is not known.
    """

    __tablename__ = "pool_forecasts"
    __table_args__ = ({"sqlite_with_rowid": False},)

    made_on: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, primary_key=True)
    pool_id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    bound: orm.Mapped[str] = orm.mapped_column(exact_text(8), primary_key=True)
    known_days: orm.Mapped[int] = orm.mapped_column(sa.SmallInteger)
    p10_days: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    p50_days: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    p90_days: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    low_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    high_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    hit: orm.Mapped[bool | None] = orm.mapped_column(sa.Boolean)


class ComingRefusals(Base):
    """The last forecast of the refusals of a volume type; an empty ``type_id`` has the volumes without a type.

    The requests of some days were played in ``runs``, 0 if the ``known_days`` of history were too few, and the type was
    ``refused`` in some of them, mostly by ``filter`` first. ``requests`` are those of one of these runs up to the first
    refusal: a list of pairs of a type and a size in GiB. ``message`` is the reason of that refusal. The three are null
    if there was none.
    """

    __tablename__ = "coming_refusals"

    type_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    made_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp)
    known_days: orm.Mapped[int] = orm.mapped_column(sa.SmallInteger)
    runs: orm.Mapped[int] = orm.mapped_column(sa.SmallInteger)
    refused: orm.Mapped[int] = orm.mapped_column(sa.SmallInteger)
    filter: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    message: orm.Mapped[str | None] = orm.mapped_column(FreeText())
    requests: orm.Mapped[list[list[Any]] | None] = orm.mapped_column(sa.JSON(none_as_null=True))
