# SPDX-License-Identifier: Apache-2.0
"""Rows of a transaction that may have been committed although its connection was lost.

The transaction runs again; it looks for its rows before it makes them again.
"""

from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import database

_Named = TypeVar("_Named", models.VolumeType, models.GroupType, models.QosSpecs)


def find_committed(session: orm.Session, model: type[_Named], name: str, **values: object) -> _Named | None:
    """Return the row of that name if it has these values and an earlier attempt may have made it; else None."""
    if not database.may_be_committed(session):
        return None
    row = session.scalar(sa.select(model).where(model.name == name))
    return row if row is not None and all(getattr(row, key) == value for key, value in values.items()) else None
