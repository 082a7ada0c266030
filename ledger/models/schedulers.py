# SPDX-License-Identifier: Apache-2.0
"""Scheduler processes, the rules that they share, and the identity of their ledger."""

import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger.models.base import Base, Timestamp, Uuid, exact_text, utcnow
from tonnage.ledger.models.free_text import FreeText


class Service(Base):
    """A scheduler process, the time of its last heartbeat, and the rules that it uses or proposes.

    The rules that all schedulers use are in :class:`Rules`, and ``hook_extensions`` are a part of them. ``enabled`` is
    set by an operator. ``last_listened_at`` is the last time at which it received messages of agents; null if it never
    did. ``nonce`` is that of the process which sent the last heartbeat. ``ledger_fault`` is why the ledger refuses its
    transactions, null if it does not.
    """

    __tablename__ = "services"

    binary: orm.Mapped[str] = orm.mapped_column(exact_text(64), primary_key=True)
    host: orm.Mapped[str] = orm.mapped_column(exact_text(255), primary_key=True)
    availability_zone: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    last_seen_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Timestamp, default=utcnow())
    last_listened_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)
    default_ratio: orm.Mapped[str | None] = orm.mapped_column(exact_text(32))
    calculation: orm.Mapped[str | None] = orm.mapped_column(exact_text(16))
    hook_extensions: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    enabled: orm.Mapped[bool] = orm.mapped_column(default=True)
    disabled_reason: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    nonce: orm.Mapped[str | None] = orm.mapped_column(exact_text(32))
    ledger_fault: orm.Mapped[str | None] = orm.mapped_column(FreeText(255))


class Rules(Base):
    """The single row of rules that all schedulers use.

    ``generation`` grows with each change and is copied to all backends. So no transaction has to read this row to
    notice a change: a booking or a report locks a backend's row anyway. ``hook_extensions`` are the names, with commas
    between them, of the extensions that add statements to the transactions of all schedulers.
    """

    __tablename__ = "rules"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    default_ratio: orm.Mapped[str] = orm.mapped_column(exact_text(32))
    calculation: orm.Mapped[str] = orm.mapped_column(exact_text(16))
    hook_extensions: orm.Mapped[str] = orm.mapped_column(exact_text(255), default="")
    generation: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)


class LedgerIdentity(Base):
    """The single row with the identity of the ledger, which a copy in another database keeps.

    ``copied_to`` is the address of that copy and ``copied_at`` its time; null without one. A ledger with a copy is no
    longer used.
    """

    __tablename__ = "ledger_identity"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    ledger_id: orm.Mapped[str] = orm.mapped_column(Uuid)
    copied_to: orm.Mapped[str | None] = orm.mapped_column(exact_text(255))
    copied_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Timestamp)


class WriterSlot(Base):
    """The node of a Galera cluster through which the ledger is written, and the number of its term.

    All rows name the same node. Each transaction updates one of them, and a change of the node all, see
    :mod:`tonnage.ledger.db.galera`. ``uses`` is the number of transactions. Other databases have no rows.
    """

    __tablename__ = "writer_slots"

    slot: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    term: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    node: orm.Mapped[str] = orm.mapped_column(exact_text(511))
    uses: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)


class WriteProbeRow(Base):
    """A row of a transaction that deletes it again: it shows whether the ledger can be written. No row is ever left."""

    __tablename__ = "write_probes"

    id: orm.Mapped[str] = orm.mapped_column(Uuid, primary_key=True)
    filler: orm.Mapped[bytes] = orm.mapped_column(sa.LargeBinary)
