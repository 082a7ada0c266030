# SPDX-License-Identifier: Apache-2.0
"""What was made, perhaps, by a transaction whose commit was not heard of: it is looked for before it is made again."""

from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.db import database

_Named = TypeVar("_Named", models.VolumeType, models.GroupType, models.QosSpecs)


def made(session: orm.Session, kind: type[_Named], name: str, **values: object) -> _Named | None:
    """Return the row of that name if it has these values and may be what the same work has made before."""
    if not database.may_be_done(session):
        return None
    found = session.scalar(sa.select(kind).where(kind.name == name))
    return found if found is not None and all(getattr(found, key) == value for key, value in values.items()) else None
