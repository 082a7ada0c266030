# SPDX-License-Identifier: Apache-2.0
"""The ledger's tables.

Sizes and capacities are GiB: whole numbers where the ledger counts, two decimals where drivers report. Times are UTC,
by the database's clock. An operator may read all of this with plain SQL; only Tonnage may write it.
"""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import mysql
from sqlalchemy.ext import compiler
from sqlalchemy.sql import functions

#: Times to the microsecond: MariaDB cuts to seconds unless told.
Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
Json = sa.JSON()
#: Most characters of a volume's id.
LONGEST_ID = 36
Uuid = sa.String(LONGEST_ID)


def _name(length: int) -> sa.String:
    """Return the type of names that must stay apart by case: MariaDB's usual collations compare without it."""
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


class utcnow(functions.FunctionElement[datetime.datetime]):  # noqa: N801  (reads as the SQL function that it is)
    """The database's clock, in UTC."""

    type = sa.DateTime()
    inherit_cache = True


@compiler.compiles(utcnow, "sqlite")
def _utcnow_sqlite(element: utcnow, compiled: Any, **kw: Any) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f', 'now')"


@compiler.compiles(utcnow, "postgresql")
def _utcnow_postgresql(element: utcnow, compiled: Any, **kw: Any) -> str:
    return "timezone('utc', clock_timestamp())"


@compiler.compiles(utcnow, "mysql")
@compiler.compiles(utcnow, "mariadb")
def _utcnow_mysql(element: utcnow, compiled: Any, **kw: Any) -> str:
    return "utc_timestamp(6)"


def age(now: datetime.datetime, then: datetime.datetime | None) -> float | None:
    """Return for how many seconds something has been by ``now``, both by :class:`utcnow`; None if it never was."""
    return None if then is None else max(0.0, (now - then).total_seconds())


class Base(orm.DeclarativeBase):
    """Base of the ledger's models. Constraint names are fixed so that migrations can name them."""

    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Backend(Base):
    """One configured driver on one agent. ``epoch`` grows with every agent process that said hello.

    Nothing is placed on a backend that is not ``enabled``; from one that is ``draining`` its volumes are moved away.
    ``rpc_version`` is what its agent understands, ``rules_generation`` that of the rules, see :class:`Rules`.
    ``listing_epoch`` and ``listing_tick`` are of the last listing that was recorded: older ones come too late.
    """

    __tablename__ = "backends"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(_name(255), unique=True)
    driver: orm.Mapped[str] = orm.mapped_column(sa.String(255), default="")
    availability_zone: orm.Mapped[str] = orm.mapped_column(sa.String(255), default="")
    allocated_capacity_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    enabled: orm.Mapped[bool] = orm.mapped_column(default=True)
    disabled_reason: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    draining: orm.Mapped[bool] = orm.mapped_column(default=False, server_default=sa.false())
    rpc_version: orm.Mapped[str] = orm.mapped_column(sa.String(16), default="1.0", server_default="1.0")
    rules_generation: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0, server_default="0")
    epoch: orm.Mapped[int] = orm.mapped_column(default=0)
    nonce: orm.Mapped[str] = orm.mapped_column(sa.String(64), default="")
    report_seq: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    report_covers: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    listing_epoch: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0, server_default="0")
    listing_tick: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0, server_default="0")
    last_report_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    last_listing_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class Pool(Base):
    """A part of a backend. The figures are those of the last report; the counters are what the claims add up to.

    ``thin_limit_gb`` (what provisioned + in-flight may reach) and ``physical_limit_gb`` (free less the reserve) are
    written with each report, so that a claim can compare columns; null is no limit. ``generation`` changes whenever
    figures other than counters do in a way that decisions depend on.

    Pools of one ``storage_id`` draw on the same storage. The ``shared`` counters are what the claims of the others add
    to what counts against this pool's figures; for a part carved out, which has a ``storage_free_gb``, that is the
    physical room alone. ``covers_stamp`` is the storage's stamp that was current before the last look, see
    :class:`Storage`. ``external_gb`` is what volumes have there that Tonnage did not place, as far as listings tell.

    ``exceeded_at`` is when it was found, and announced, to hold more than it should; null while it does not.
    """

    __tablename__ = "pools"
    __table_args__ = (sa.Index("ix_pools_backend_id_exceeded_at", "backend_id", "exceeded_at"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    backend_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Backend.id), index=True)
    name: orm.Mapped[str] = orm.mapped_column(_name(511), unique=True)
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
    covers_stamp: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0, server_default="0")
    storage_id: orm.Mapped[str | None] = orm.mapped_column(_name(255), index=True)
    storage_free_gb: orm.Mapped[float | None] = orm.mapped_column(sa.Double)
    shared_allocated_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0, server_default="0")
    shared_in_flight_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0, server_default="0")
    shared_in_flight_physical_gb: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0, server_default="0")
    external_gb: orm.Mapped[float] = orm.mapped_column(sa.Double, default=0.0, server_default="0")
    reported_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    stats: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json, default=dict)
    exceeded_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)

    backend: orm.Mapped[Backend] = orm.relationship()


class Storage(Base):
    """What several pools draw on. Agents of different backends share no ticks, so the ledger stamps their looks.

    ``stamp`` grows with every look that is begun; a claim that ends is given the next one. A report whose look was
    given stamp *n* contains every claim of the storage that had ended by then: those of a lower or equal stamp.
    """

    __tablename__ = "storages"

    name: orm.Mapped[str] = orm.mapped_column(_name(255), primary_key=True)
    stamp: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)


class VolumeType(Base):
    """A volume type."""

    __tablename__ = "volume_types"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(_name(255), unique=True)
    description: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    is_public: orm.Mapped[bool] = orm.mapped_column(default=True)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())

    specs: orm.Mapped[list["ExtraSpec"]] = orm.relationship(cascade="all, delete-orphan", lazy="selectin")
    qos: orm.Mapped["QosSpecs | None"] = orm.relationship(secondary="volume_type_qos_specs", viewonly=True)

    @property
    def extra_specs(self) -> dict[str, str]:
        """The extra specs as a mapping."""
        return {spec.key: spec.value for spec in self.specs}


class ExtraSpec(Base):
    """One extra spec of a volume type."""

    __tablename__ = "volume_type_extra_specs"

    volume_type_id: orm.Mapped[str] = orm.mapped_column(
        sa.ForeignKey(VolumeType.id, ondelete="CASCADE"), primary_key=True
    )
    key: orm.Mapped[str] = orm.mapped_column(_name(255), primary_key=True)
    value: orm.Mapped[str] = orm.mapped_column(sa.String(255))


class QosSpecs(Base):
    """What volumes of some types are to get of a storage or a hypervisor, such as a number of operations per second.

    ``consumer`` is who sees to it: the hypervisor (``front-end``), the storage (``back-end``) or ``both``.
    """

    __tablename__ = "qos_specs"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(_name(255), unique=True)
    consumer: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    specs: orm.Mapped[dict[str, str]] = orm.mapped_column(Json, default=dict)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class TypeQos(Base):
    """A volume type that QoS specs are for; no type has several."""

    __tablename__ = "volume_type_qos_specs"

    volume_type_id: orm.Mapped[str] = orm.mapped_column(
        sa.ForeignKey(VolumeType.id, ondelete="CASCADE"), primary_key=True
    )
    qos_specs_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(QosSpecs.id), index=True)


class TypeAccess(Base):
    """A project that sees and uses a volume type which is not public."""

    __tablename__ = "volume_type_access"

    volume_type_id: orm.Mapped[str] = orm.mapped_column(
        sa.ForeignKey(VolumeType.id, ondelete="CASCADE"), primary_key=True
    )
    project_id: orm.Mapped[str] = orm.mapped_column(_name(255), primary_key=True)


class GroupType(Base):
    """A type of groups. Its ``specs`` are asked of the backend of a group, as a volume type's extra specs are."""

    __tablename__ = "group_types"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(_name(255), unique=True)
    description: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    is_public: orm.Mapped[bool] = orm.mapped_column(default=True)
    specs: orm.Mapped[dict[str, str]] = orm.mapped_column(Json, default=dict)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class Group(Base):
    """Volumes that are on one backend: that on which they are, for it is written down nowhere else.

    One that is being deleted is there as long as one of its volumes is.
    """

    __tablename__ = "groups"
    __table_args__ = (sa.Index("ix_groups_project_id_created_at", "project_id", "created_at", "id"),)

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    description: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    project_id: orm.Mapped[str] = orm.mapped_column(_name(255))
    user_id: orm.Mapped[str] = orm.mapped_column(_name(255), default="")
    group_type_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(GroupType.id), index=True)
    availability_zone: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    status: orm.Mapped[str] = orm.mapped_column(sa.String(32))
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    updated_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp, onupdate=utcnow())

    group_type: orm.Mapped[GroupType] = orm.relationship()
    volume_types: orm.Mapped[list[VolumeType]] = orm.relationship(
        secondary="group_volume_types", order_by=VolumeType.name, lazy="selectin"
    )


class GroupVolumeType(Base):
    """A volume type that volumes of a group may have."""

    __tablename__ = "group_volume_types"

    group_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(Group.id, ondelete="CASCADE"), primary_key=True)
    volume_type_id: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(VolumeType.id), primary_key=True, index=True)


class Volume(Base):
    """A volume. ``size_gb`` is what the ledger counts; ``status_reason`` says why it is in error.

    ``attempted_pools`` are the pools that have failed to make it. ``migration_status`` is how its last migration went.
    """

    __tablename__ = "volumes"
    __table_args__ = (sa.Index("ix_volumes_project_id_created_at", "project_id", "created_at", "id"),)

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    description: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    project_id: orm.Mapped[str] = orm.mapped_column(_name(255))
    user_id: orm.Mapped[str] = orm.mapped_column(_name(255), default="")
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    status: orm.Mapped[str] = orm.mapped_column(sa.String(32), index=True)
    status_reason: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    volume_type_id: orm.Mapped[str | None] = orm.mapped_column(sa.ForeignKey(VolumeType.id), index=True)
    availability_zone: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    requested_zone: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    pool_id: orm.Mapped[int | None] = orm.mapped_column(sa.ForeignKey(Pool.id), index=True)
    provisioning: orm.Mapped[str | None] = orm.mapped_column(sa.String(8))
    user_metadata: orm.Mapped[dict[str, str]] = orm.mapped_column("metadata", Json, default=dict)
    hints: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json, default=dict)
    attempted_pools: orm.Mapped[list[str]] = orm.mapped_column(Json, default=list)
    request_id: orm.Mapped[str] = orm.mapped_column(sa.String(64), default="")
    source_volume_id: orm.Mapped[str | None] = orm.mapped_column(Uuid)
    migration_status: orm.Mapped[str | None] = orm.mapped_column(sa.String(32))
    group_id: orm.Mapped[str | None] = orm.mapped_column(Uuid, index=True)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    updated_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp, onupdate=utcnow())

    volume_type: orm.Mapped[VolumeType | None] = orm.relationship()
    pool: orm.Mapped[Pool | None] = orm.relationship()


class Claim(Base):
    """One promise of capacity, made with a decision, or the record of an operation under way that takes none.

    ``create``, ``extend`` and ``migrate`` (at the target) take capacity, ``manage`` takes over what is there already;
    ``delete`` and ``purge`` are records: of a volume on its way out, and of a copy that nobody wants any more.

    ``pending`` until the agent has told how it ended, then ``confirmed``, or ``released``; ``abandoned`` where the
    agent stayed away: it stays counted until a purge has ended. In flight while not ``contained``: until a report that
    began after ``end_tick`` has been applied. ``everywhere`` is false while the figures of another pool on the same
    storage may lack it; ``end_stamp`` orders it with those, see :class:`Storage`. ``target_size_gb`` is the absolute
    size that the volume shall have (of what is taken over, the size that was listed), ``size_gb`` what the claim adds,
    ``physical_gb`` what of it may be taken at once.

    ``source_pool_id`` is where a copy is made from, ``reference`` the name on the storage of what is taken over,
    ``volume_type_id`` the type that the volume has once a migration is done (null: the one it has).
    """

    __tablename__ = "claims"
    __table_args__ = (
        sa.Index("ix_claims_pool_id_contained", "pool_id", "contained"),
        sa.Index("ix_claims_backend_id_contained", "backend_id", "contained"),
        sa.Index("ix_claims_pool_id_everywhere", "pool_id", "everywhere"),
    )

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    backend_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Backend.id))
    pool_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Pool.id))
    verb: orm.Mapped[str] = orm.mapped_column(sa.String(8))
    state: orm.Mapped[str] = orm.mapped_column(sa.String(12), index=True)
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    physical_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    target_size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    provisioning: orm.Mapped[str] = orm.mapped_column(sa.String(8))
    contained: orm.Mapped[bool] = orm.mapped_column(default=False)
    end_epoch: orm.Mapped[int | None] = orm.mapped_column()
    end_tick: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    everywhere: orm.Mapped[bool] = orm.mapped_column(default=True, server_default=sa.true())
    end_stamp: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    source_pool_id: orm.Mapped[int | None] = orm.mapped_column()
    reference: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    volume_type_id: orm.Mapped[str | None] = orm.mapped_column(Uuid)
    request_id: orm.Mapped[str] = orm.mapped_column(sa.String(64), default="")
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class RequestKey(Base):
    """The answer that a request was given, so that the same request delivered again is answered and not decided.

    A key lives as long as its volume and a while longer, counted from ``counted_from``.
    """

    __tablename__ = "request_keys"

    request_id: orm.Mapped[str] = orm.mapped_column(sa.String(64), primary_key=True)
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    answer: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    counted_from: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow(), index=True)


class Message(Base):
    """What a user is told of an operation that failed after it had been accepted."""

    __tablename__ = "messages"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    project_id: orm.Mapped[str] = orm.mapped_column(_name(255), index=True)
    request_id: orm.Mapped[str] = orm.mapped_column(sa.String(64), default="")
    resource_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    resource_type: orm.Mapped[str] = orm.mapped_column(sa.String(32), default="VOLUME")
    event: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    level: orm.Mapped[str] = orm.mapped_column(sa.String(16), default="ERROR")
    text: orm.Mapped[str] = orm.mapped_column(sa.Text)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class Discrepancy(Base):
    """What a backend's last listing showed that the ledger does not say, or says otherwise.

    ``kind`` is ``orphan`` (there, and the ledger knows nothing of it), ``lost`` (the ledger counts it, and it is not
    there), ``size``, or ``unclear`` (there and unclaimed, but it was a volume of Tonnage's until lately: the next list
    tells). ``volume_id`` is the name on the storage.
    """

    __tablename__ = "discrepancies"
    __table_args__ = (sa.UniqueConstraint("pool_id", "volume_id", name="uq_discrepancies_pool_id_volume_id"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    pool_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Pool.id))
    volume_id: orm.Mapped[str] = orm.mapped_column(_name(255))
    kind: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    listed_gb: orm.Mapped[float] = orm.mapped_column(sa.Double, default=0.0)
    ledger_gb: orm.Mapped[float] = orm.mapped_column(sa.Double, default=0.0)
    seen_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class Finding(Base):
    """A definition of what drivers report that a pool's reports break, for as long as they do.

    ``pool`` is what is reported as its name, which may be anything. ``once_seq`` is the number of the report in which
    it was found, while that is not sure yet: not before another one shows it too.
    """

    __tablename__ = "findings"
    __table_args__ = (sa.UniqueConstraint("backend_id", "pool", "breach", name="uq_findings_backend_id_pool_breach"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    backend_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey(Backend.id, ondelete="CASCADE"))
    pool: orm.Mapped[str] = orm.mapped_column(_name(255))
    breach: orm.Mapped[str] = orm.mapped_column(sa.String(32))
    text: orm.Mapped[str] = orm.mapped_column(sa.Text)
    once_seq: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    seen_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class Announcement(Base):
    """What is still to be announced on one channel; it goes when somebody has taken it.

    ``message_id`` stays the same however often it is sent.
    """

    __tablename__ = "announcements"
    __table_args__ = (sa.Index("ix_announcements_channel_id", "channel", "id"),)

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    message_id: orm.Mapped[str] = orm.mapped_column(Uuid, unique=True)
    channel: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    event_type: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    payload: orm.Mapped[dict[str, Any]] = orm.mapped_column(Json)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class AnnouncementLease(Base):
    """Which scheduler sends the announcements of a channel, since when; ``term`` grows with each lease."""

    __tablename__ = "announcement_leases"

    channel: orm.Mapped[str] = orm.mapped_column(sa.String(64), primary_key=True)
    owner: orm.Mapped[str] = orm.mapped_column(_name(255), default="")
    term: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    leased_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class Service(Base):
    """A scheduler process, when it last said that it is there, and what it goes by, or is to go by.

    What all of them go by is in :class:`Rules`. ``enabled`` is what an operator has said of it.
    """

    __tablename__ = "services"

    binary: orm.Mapped[str] = orm.mapped_column(sa.String(64), primary_key=True)
    host: orm.Mapped[str] = orm.mapped_column(sa.String(255), primary_key=True)
    availability_zone: orm.Mapped[str] = orm.mapped_column(sa.String(255), default="")
    last_seen_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    default_ratio: orm.Mapped[str | None] = orm.mapped_column(sa.String(32))
    calculation: orm.Mapped[str | None] = orm.mapped_column(sa.String(16))
    rpc_version: orm.Mapped[str] = orm.mapped_column(sa.String(16), default="1.0", server_default="1.0")
    enabled: orm.Mapped[bool] = orm.mapped_column(default=True, server_default=sa.true())
    disabled_reason: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))


class Rules(Base):
    """The one row of what all schedulers go by. ``generation`` grows with each change, and all backends bear it.

    So nothing has to read this row to know that it has changed: whoever books or reports locks a backend's row anyway.
    """

    __tablename__ = "rules"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    default_ratio: orm.Mapped[str] = orm.mapped_column(sa.String(32))
    calculation: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    generation: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)


class QuotaLimit(Base):
    """A limit that was set: for a project or in it for one user (``holder`` is ``project``), or for a class of them.

    ``volume_type_id`` and ``user_id`` are empty where it is for all. -1 is no limit, which wins over other limits too.
    """

    __tablename__ = "quota_limits"

    holder: orm.Mapped[str] = orm.mapped_column(sa.String(8), primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(_name(255), primary_key=True)
    user_id: orm.Mapped[str] = orm.mapped_column(_name(255), primary_key=True, default="")
    resource: orm.Mapped[str] = orm.mapped_column(sa.String(32), primary_key=True)
    volume_type_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True, default="", index=True)
    hard_limit: orm.Mapped[int] = orm.mapped_column(sa.Integer)


class QuotaUsage(Base):
    """A counter of what a project has, or in it one user or of one volume type (empty: all of them).

    The volumes are the truth. A counter grows with what is booked and never falls by itself, so it is never less than
    the truth; where it would turn somebody away, and now and then, it is counted anew. ``counted_at`` is when, null
    where it must not be believed. Nothing is kept for what has no limit.
    """

    __tablename__ = "quota_usages"

    project_id: orm.Mapped[str] = orm.mapped_column(_name(255), primary_key=True)
    user_id: orm.Mapped[str] = orm.mapped_column(_name(255), primary_key=True, default="")
    volume_type_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True, default="")
    volumes: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    gigabytes: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    counted_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)


class Allocation(Base):
    """What OpenStack Placement has been told of a volume in one pool, under the name of a consumer.

    ``kind`` is its type there. ``generation`` counts its changes; null for one that Placement does not have yet.
    ``doubt`` names the round that is telling it anew: as long as that is not known to have ended, either size may be
    there. Pools may go before what was told of them is taken back.
    """

    __tablename__ = "placement_allocations"

    consumer_id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    kind: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    volume_id: orm.Mapped[str] = orm.mapped_column(Uuid, index=True)
    pool_id: orm.Mapped[int] = orm.mapped_column(sa.Integer, index=True)
    project_id: orm.Mapped[str] = orm.mapped_column(_name(255), index=True)
    user_id: orm.Mapped[str] = orm.mapped_column(_name(255), default="")
    size_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    generation: orm.Mapped[int | None] = orm.mapped_column(sa.Integer)
    doubt: orm.Mapped[str | None] = orm.mapped_column(sa.String(36))


class CsiDriver(Base):
    """A storage driver of a Kubernetes cluster, whose writers tell what its storage has: see :mod:`tonnage.k8s`.

    Whoever changes the driver's storage, or claims some of it, holds this row. ``version`` grows with each change,
    ``layout`` with those of more than capacities, sizes and times.
    """

    __tablename__ = "csi_drivers"

    uid: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(_name(253), unique=True)
    capacity_tracking: orm.Mapped[bool | None] = orm.mapped_column()
    version: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=1)
    layout: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=1)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())


class CsiStorage(Base):
    """What a driver has for a storage class, ``<fallback>`` or ``<ephemeral>``. It counts also without pools."""

    __tablename__ = "csi_storages"

    driver_uid: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(CsiDriver.uid), primary_key=True)
    storage_class: orm.Mapped[str] = orm.mapped_column(_name(253), primary_key=True)


class CsiPool(Base):
    """A pool of such a storage. Sizes are bytes. ``version`` is that of the driver when this row was last written."""

    __tablename__ = "csi_pools"
    __table_args__ = (sa.Index("ix_csi_pools_driver_uid_version", "driver_uid", "version"),)

    driver_uid: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(CsiDriver.uid), primary_key=True)
    storage_class: orm.Mapped[str] = orm.mapped_column(_name(253), primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(_name(253), primary_key=True)
    node_topology: orm.Mapped[dict[str, Any] | None] = orm.mapped_column(sa.JSON(none_as_null=True))
    node_list: orm.Mapped[list[str] | None] = orm.mapped_column(sa.JSON(none_as_null=True))
    capacity: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    maximum_volume_size: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    expires_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    backing_id: orm.Mapped[str | None] = orm.mapped_column(_name(253))
    version: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)


class CsiClaim(Base):
    """What was promised to somebody of such a pool, in bytes: it counts until it is given back or its time is over.

    ``pod`` is namespace and name of the pod that it is for, if it is for one.
    """

    __tablename__ = "csi_claims"

    holder: orm.Mapped[str] = orm.mapped_column(_name(255), primary_key=True)
    volume: orm.Mapped[str] = orm.mapped_column(_name(255), primary_key=True)
    node: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    driver_uid: orm.Mapped[str] = orm.mapped_column(sa.ForeignKey(CsiDriver.uid), index=True)
    storage_class: orm.Mapped[str] = orm.mapped_column(_name(253))
    pool: orm.Mapped[str] = orm.mapped_column(_name(253))
    size: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    expires_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp)
    pod: orm.Mapped[str | None] = orm.mapped_column(_name(512))


def table(model: type[Base]) -> sa.Table:
    """Return the table of a model, for statements that are executed many times over: they go past the ORM."""
    found = model.__table__
    assert isinstance(found, sa.Table)  # noqa: S101  -- said by the type of the attribute to be anything selectable
    return found
