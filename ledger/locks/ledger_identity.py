# SPDX-License-Identifier: Apache-2.0
"""The identity of a ledger. Agents mark their storage with it: no other ledger takes the volumes for orphans.

A ledger with a copy in another database is no longer used. Until a copy is undone all generations of the scheduling
rules are negative in it. A scheduler that was suspended while the copy was made compares them with its own, or reads
them, in each transaction that decides something: it finds no row with its generation, or gets
:class:`~tonnage.capacity.errors.LedgerMoved`.
"""

import uuid

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import schema

_ROW = 1


def ledger_id(session: orm.Session) -> str:
    """Return the id of the ledger, and give it one if it has none."""
    row = session.get(models.LedgerIdentity, _ROW)
    if row is None:
        row = models.LedgerIdentity(id=_ROW, ledger_id=str(uuid.uuid4()))
        session.add(row)
        session.flush()
    return row.ledger_id


def set_copy(session: orm.Session, address: str | None) -> str | None:
    """Record the address of a copy of the ledger, which is used from now on; None: this one is used again.

    This waits for the transactions that are deciding. Returns the address that was recorded before.
    """
    ledger_id(session)
    row = session.get_one(models.LedgerIdentity, _ROW, with_for_update=True)
    rules, backend = models.Rules, models.Backend
    session.execute(sa.select(rules.id).with_for_update()).all()
    # In the one order of locks.
    session.execute(sa.select(backend.id).order_by(backend.id).with_for_update()).all()
    for table, generation in ((rules, rules.generation), (backend, backend.rules_generation)):
        other = generation >= 0 if address is not None else generation < 0
        change = sa.update(table).where(other).values({generation: -1 - generation})
        session.execute(change.execution_options(synchronize_session=False))
    before, row.copied_to = row.copied_to, address
    row.copied_at = None if address is None else session.scalar(sa.select(models.utcnow()))
    session.flush()
    return before


def moved(session: orm.Session) -> errors.LedgerMoved:
    """Return the error for a ledger whose copy is used instead: the generation of its rules is negative."""
    row = session.get_one(models.LedgerIdentity, _ROW)
    return errors.LedgerMoved(schema.describe_copy(row.copied_to, row.copied_at))
