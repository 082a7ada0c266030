# SPDX-License-Identifier: Apache-2.0
"""The rows of claims on drivers in the ledger's database, as decisions read them: all, or those that have changed."""

import datetime
from collections.abc import Collection
from typing import Any, NamedTuple, cast

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger import models

_TABLE, _END = cast(sa.Table, tables.CsiClaim.__table__), cast(sa.Table, tables.CsiClaimEnd.__table__)

#: The number of changes whose ends of claims are kept. Whoever has read fewer reads all claims again.
KEPT_CHANGES = 1000

# They are made once, on tables and not on models: that takes a part of the time.
_CLAIMS_ON_DRIVER = sa.select(
    _TABLE.c.holder,
    _TABLE.c.volume,
    _TABLE.c.pod,
    _TABLE.c.expires_at,
    _TABLE.c.storage_class,
    _TABLE.c.pool,
    _TABLE.c.size,
    _TABLE.c.backing_id,
    _TABLE.c.capacity,
    _TABLE.c.number,
).where(_TABLE.c.driver_uid == sa.bindparam("uid"))
_CLAIMS_SINCE = _CLAIMS_ON_DRIVER.where(_TABLE.c.number > sa.bindparam("version"))
_CLAIMS_WITHOUT_NUMBER = _CLAIMS_ON_DRIVER.where(_TABLE.c.number.is_(None))
_CLAIMS_OF_HOLDERS = _CLAIMS_ON_DRIVER.where(_TABLE.c.holder.in_(sa.bindparam("holders", expanding=True)))
_ENDS_SINCE = sa.select(_END.c.holder, _END.c.volume, _END.c.number).where(
    _END.c.driver_uid == sa.bindparam("uid"), _END.c.number > sa.bindparam("version")
)
_MOMENT = sa.select(
    models.utcnow(),
    sa.exists().where(_TABLE.c.holder == sa.bindparam("own_holder")),
    sa.exists().where(_TABLE.c.driver_uid.in_(sa.bindparam("uids", expanding=True)), _TABLE.c.number.is_(None)),
)


class ClaimRow(NamedTuple):
    """A row of the claims on a driver, in the order of the statement."""

    holder: str
    volume: str
    pod: str | None
    expires_at: datetime.datetime
    storage_class: str
    pool: str
    size: int
    backing_id: str | None
    capacity: int | None
    number: int | None

    @property
    def claim(self) -> ActiveClaim:
        """What the claim takes."""
        return ActiveClaim((self.storage_class, self.pool), self.size, self.backing_id, self.capacity)


class ClaimEnd(NamedTuple):
    """The end of a claim by its holder."""

    holder: str
    volume: str
    number: int


class Moment(NamedTuple):
    """The time by the database's clock, UTC, and what a decision has to know of claims then.

    ``has_claims`` tells whether the holder has claims, active or expired ones, ``has_unnumbered`` whether there are
    claims on the drivers that the release before has made.
    """

    now: datetime.datetime
    has_claims: bool
    has_unnumbered: bool


def moment(session: orm.Session, uids: Collection[str], holder: str | None = None) -> Moment:
    """Return the time and what there is at that time, for a holder and the drivers with these uids."""
    row = session.execute(_MOMENT, {"own_holder": holder or "", "uids": list(uids)}).one()
    return Moment(row[0], bool(row[1]), bool(row[2]))


def on_driver(session: orm.Session, uid: str, *conditions: "sa.ColumnElement[bool]") -> list[ClaimRow]:
    """Return all claims on a driver, expired ones too, or those that meet some conditions."""
    return _rows(session, _CLAIMS_ON_DRIVER.where(*conditions) if conditions else _CLAIMS_ON_DRIVER, uid=uid)


def since(session: orm.Session, uid: str, version: int) -> tuple[list[ClaimRow], list[ClaimEnd]]:
    """Return the claims on a driver with a later number than this one, and the later ends of claims."""
    ends = session.execute(_ENDS_SINCE, {"uid": uid, "version": version}).all()
    return _rows(session, _CLAIMS_SINCE, uid=uid, version=version), [ClaimEnd(*end) for end in ends]


def without_number(session: orm.Session, uid: str) -> list[ClaimRow]:
    """Return the claims on a driver that the release before has made."""
    return _rows(session, _CLAIMS_WITHOUT_NUMBER, uid=uid)


def of_holders(session: orm.Session, uid: str, holders: Collection[str]) -> list[ClaimRow]:
    """Return the claims of some holders on a driver, expired ones too."""
    return _rows(session, _CLAIMS_OF_HOLDERS, uid=uid, holders=list(holders))


def _rows(session: orm.Session, statement: "sa.Select[Any]", **parameters: Any) -> list[ClaimRow]:
    result: Any = session.execute(statement, parameters)
    # All at once, which takes a third of the time.
    return list(map(ClaimRow._make, result.all()))
