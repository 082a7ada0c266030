# SPDX-License-Identifier: Apache-2.0
"""Backends and their pools, shared storages, and findings about them."""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Json, Timestamp, exact_text, utcnow
from tonnage.ledger.models.free_text import FreeText


class Backend(Base):
    """One configured driver on one agent. ``epoch`` grows with the hello of each new agent process.

    Nothing is placed on a backend that is not ``enabled``; volumes are migrated away from a backend that is
    ``draining``. ``rules_generation`` is the generation of the current rules, see :class:`Rules`. ``listing_epoch`` and
    ``listing_tick`` are those of the last listing that was recorded: older listings are ignored.

    ``notice`` is the code of the last notice of the agent, ``notice_text`` its reason and ``notice_at`` its time, see
    :mod:`tonnage.ledger.locks.backend_notices`; null after a report or a hello.

    An ``observed`` backend has no agent: its volumes are those of another system, see
    the extension ``cinder``. ``last_probe`` is the number of the last probe for it,
    allocated at ``probed_at``. These three columns serve that extension alone; they are here because each booking and
    each report locks the row of its backend, and a row of another table would be one more lock and read.
    """

    __tablename__ = "backends"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(exact_text(255), unique=True)
    driver: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    availability_zone: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    allocated_capacity_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    enabled: orm.Mapped[bool] = orm.mapped_column(default=True)
    disabled_reason: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    draining: orm.Mapped[bool] = orm.mapped_column(default=False)
    rules_generation: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    epoch: orm.Mapped[int] = orm.mapped_column(default=0)
    nonce: orm.Mapped[str] = orm.mapped_column(exact_text(64), default="")
    report_seq: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    report_covers: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    listing_epoch: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    listing_tick: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    last_report_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    report_age: orm.Mapped[float] = orm.mapped_column(sa.Double, default=0.0)
    last_listing_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    notice: orm.Mapped[str | None] = orm.mapped_column(exact_text(16))
    notice_text: orm.Mapped[str | None] = orm.mapped_column(FreeText())
    notice_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    observed: orm.Mapped[bool] = orm.mapped_column(default=False)
    last_probe: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    probed_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class Pool(Base):
    """A part of a backend. The figures are those of the last report; the counters are sums of claims.

    No two pools ever have the same ``id``. So a row of an extension, such as the history, may outlive its pool.

    ``thin_limit_gb`` (the limit for provisioned plus in-flight capacity) and ``physical_limit_gb`` (free capacity less
    the reserve) are written with each report, so that a claim can compare columns; null is no limit. ``generation``
    grows whenever anything but counters changes in a way that decisions depend on.

    Pools with the same ``storage_id`` draw on the same storage. The ``shared`` counters are the sums of the other
    pools' claims that count against this pool's figures; for a part carved out of a storage, which has a
    ``storage_free_gb``, only the physical sum is kept. ``covers_stamp`` is the storage's stamp taken before the last
    look, see :class:`Storage`. ``external_gb`` is the capacity of volumes that Tonnage did not place, by the last
    listing.

    ``deleted_gb`` is the sum of all volumes that were deleted from the pool, ``moved_gb`` that of all that were
    migrated to it less those that were migrated away. Only differences of two moments have a meaning. They serve the
    history alone, and are here because the statement that changes the counters of the pool changes them too.

    ``exceeded_at`` is the time at which the pool was found, and announced, to be over its limits; null while it is not.
    It serves the announcements alone, and is here because they look at the row of each pool that a transaction changes.

    ``unheard_at`` is the time of the last report without usable figures of the pool. While the backend has sent no
    later report, ``figures_at`` is the time at which the driver began to collect the current figures.
    """

    __tablename__ = "pools"
    __table_args__ = (
        sa.Index("ix_pools_backend_id_exceeded_at", "backend_id", "exceeded_at"),
        # Other databases never give an id twice; SQLite would give that of the last pool to the next one.
        {"sqlite_autoincrement": True},
    )

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    backend_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Backend.id), index=True)
    name: orm.Mapped[str] = orm.mapped_column(exact_text(511), unique=True)
    present: orm.Mapped[bool] = orm.mapped_column(default=True)
    allocated_capacity_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    in_flight_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    in_flight_physical_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    total_capacity_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    free_capacity_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    provisioned_capacity_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    ratio: orm.Mapped[float] = orm.mapped_column(sa.Double, default=1.0)
    thin_limit_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    physical_limit_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    generation: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    covers_epoch: orm.Mapped[int] = orm.mapped_column(default=0)
    covers_tick: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    covers_stamp: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    storage_id: orm.Mapped[str | None] = orm.mapped_column(exact_text(255), index=True)
    storage_free_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    shared_allocated_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    shared_in_flight_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    shared_in_flight_physical_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    external_gb: orm.Mapped[float] = orm.mapped_column(sa.Double, default=0.0)
    deleted_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    moved_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    reported_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    stats: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json, default=dict)
    exceeded_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    figures_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    unheard_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)

    backend: orm.Mapped[Backend] = orm.relationship()


class Storage(Base):
    """A storage that several pools draw on.

    Agents of different backends share no ticks, so the ledger numbers their looks. ``stamp`` grows with every look that
    begins; a claim that ends gets the next stamp. A report whose look has stamp *n* contains every claim of the storage
    that had ended by then: those with a lower or equal stamp.
    """

    __tablename__ = "storages"

    name: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    stamp: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)


class Discrepancy(Base):
    """A difference between the ledger and the last listing of a backend.

    ``category`` is ``orphan`` (on the storage, unknown to the ledger), ``lost`` (counted by the ledger, not on the
    storage), ``size``, or ``unclear`` (on the storage and unclaimed, but a volume of Tonnage until lately: the next
    listing decides). ``volume_id`` is the name on the storage.
    """

    __tablename__ = "discrepancies"
    __table_args__ = (sa.UniqueConstraint("pool_id", "volume_id", name="uq_discrepancies_pool_id_volume_id"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    pool_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Pool.id))
    volume_id: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    category: orm.Mapped[str] = orm.mapped_column(exact_text(16))
    listed_gb: orm.Mapped[float] = orm.mapped_column(sa.Double, default=0.0)
    ledger_gb: orm.Mapped[float] = orm.mapped_column(sa.Double, default=0.0)
    seen_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class StorageMark(Base):
    """The mark that the storage of a pool had when its backend joined last; ``pool`` is the name within the backend."""

    __tablename__ = "storage_marks"

    backend_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Backend.id, ondelete="CASCADE"), primary_key=True)
    pool: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    mark: orm.Mapped[str] = orm.mapped_column(exact_text(255))


class Finding(Base):
    """A rule for reports that a pool's reports break, for as long as they do.

    ``pool`` is the reported name, which may be any text. ``once_seq`` is the tick of the listing that showed the
    breach, until a second listing confirms it; null once it is certain.
    """

    __tablename__ = "findings"
    __table_args__ = (sa.UniqueConstraint("backend_id", "pool", "breach", name="uq_findings_backend_id_pool_breach"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    backend_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Backend.id, ondelete="CASCADE"))
    pool: orm.Mapped[str] = orm.mapped_column(exact_text(255))
    breach: orm.Mapped[str] = orm.mapped_column(exact_text(32))
    text: orm.Mapped[str] = orm.mapped_column(FreeText())
    once_seq: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    seen_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
