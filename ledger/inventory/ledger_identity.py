# SPDX-License-Identifier: Apache-2.0
"""The identity of a ledger. Agents mark their storage with it: no other ledger takes the volumes for orphans."""

import uuid

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models

_ROW = 1


def ledger_id(session: orm.Session) -> str:
    """Return the id of the ledger, and give it one if it has none."""
    row = session.get(models.LedgerIdentity, _ROW)
    if row is None:
        row = models.LedgerIdentity(id=_ROW, ledger_id=str(uuid.uuid4()))
        session.add(row)
        session.flush()
    return row.ledger_id


def set_copy(session: orm.Session, address: str | None) -> None:
    """Record the address of a copy of the ledger, which is used from now on; None: this one is used again."""
    ledger_id(session)
    row = session.get_one(models.LedgerIdentity, _ROW)
    row.copied_to = address
    row.copied_at = None if address is None else session.scalar(sa.select(models.utcnow()))
