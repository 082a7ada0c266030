# SPDX-License-Identifier: Apache-2.0
"""Request keys: a request that is delivered again gets its first answer, and takes effect only once.

A key is written in the transaction in which its request takes effect, so neither exists without the other. A refused
request has a key as well. Otherwise a scheduler that was suspended with the request could go on after another scheduler
has refused it, and the request would take effect unexpectedly late.

The answers of refused requests are not kept for ever, and a request that nobody answered has none. So a request that
was sent long ago has no effect either. Its sender and the transaction that answers it read the same clock, the
database's: any other clock may stand still while its process or machine is suspended, or be wrong.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.db.prepared_statements import Prepared

#: Operations of requests besides the verbs of claims.
GROUP = "group"
RETYPE = "retype"
UNMANAGE = "unmanage"

#: Errors that depend on the current state: the same request might succeed later. They are stored as its answer.
STORED_ERRORS = (errors.Conflict, errors.OverQuota)

#: Time for which a key is kept once its volume is gone: far longer than any message lives on the bus.
KEPT = datetime.timedelta(days=7)

#: Time after which a request has no effect any more: longer than a sender waits.
EXPIRY = datetime.timedelta(minutes=10)

#: Time for which the key of a refused request is kept: until the request has expired everywhere. A client that is
#: refused all the time would fill the database with longer ones.
REFUSAL_KEPT = EXPIRY + datetime.timedelta(minutes=5)

#: Keys in the stored answer of a request: its verb, and the error that refused it.
_VERB = "verb"
_ERROR = "error"
_MESSAGE = "message"


_KEY = models.table(models.RequestKey).c
_INSERT = sa.insert(models.table(models.RequestKey))
_INSERT_UNLESS_KNOWN = dialects.insert_unless_known(models.table(models.RequestKey))
_NOW = sa.select(models.utcnow().label("now")).subquery()
#: A row for each key, with the time; one row with only the time if there is no key.
_FIND = Prepared(
    sa.select(_NOW.c.now, _KEY.request_id, _KEY.volume_id, _KEY.answer).select_from(
        _NOW.outerjoin(
            models.table(models.RequestKey), _KEY.request_id.in_(sa.bindparam("request_ids", expanding=True))
        )
    )
)


@dataclass(frozen=True, slots=True)
class Key:
    """A request and its answer: its volume (for a group the first one), its verb, and the answer's fields.

    An ``expired`` request has no answer.
    """

    request_id: str
    volume_id: str
    verb: str
    answer: Mapping[str, Any] = field(default_factory=dict)
    refused: bool = False
    expired: bool = False

    @classmethod
    def of_error(cls, request_id: str, volume_id: str, verb: str, error: errors.TonnageError) -> "Key":
        """Return the key of a request that was refused with one of the errors in :data:`STORED_ERRORS`."""
        [name] = [error_class.__name__ for error_class in STORED_ERRORS if isinstance(error, error_class)]
        return cls(request_id, volume_id, verb, {_ERROR: name, _MESSAGE: error.message}, refused=True)

    def require(self, volume_id: str, verb: str) -> None:
        """Check that the key belongs to this request, and raise the error that refused the request, if any.

        Raises :class:`~tonnage.capacity.errors.KeyReused` if the request id was used for another volume or verb, and
        :class:`~tonnage.capacity.errors.Unavailable` for an expired request.
        """
        if self.expired:
            raise errors.Unavailable(f"the request was sent more than {EXPIRY} (h:mm:ss) ago: it has no effect")
        if (self.volume_id, self.verb) != (volume_id, verb):
            raise errors.KeyReused(
                f"request id {self.request_id} has been used for another request ({self.verb} of volume "
                f"{self.volume_id}): a new request needs a new key"
            )
        if _ERROR in self.answer:
            error_classes = {error.__name__: error for error in STORED_ERRORS}
            raise error_classes[self.answer[_ERROR]](self.answer[_MESSAGE])


def find(session: orm.Session, sent_times: Mapping[str, datetime.datetime | None]) -> dict[str, Key]:
    """Return the keys of the requests that were answered before, or that have expired, by request id.

    ``sent_times`` maps each request id to a time by the database's clock before the request was sent, or None.
    """
    if not sent_times:
        return {}
    rows = _FIND.rows(session.connection(), {"request_ids": list(sent_times)})
    keys = {id: Key(id, volume, answer.pop(_VERB), answer) for _, id, volume, answer in rows if id is not None}
    before = rows[0].now - EXPIRY
    late = [id for id, at in sent_times.items() if at is not None and at < before and id not in keys]
    return keys | {id: Key(id, "", "", expired=True) for id in late}


def insert(session: orm.Session, keys: Sequence[Key]) -> None:
    """Insert the keys of requests that are answered now.

    Raises oslo.db's ``DBDuplicateEntry`` if another transaction has just used one of the request ids.
    """
    if not keys:
        return
    connection = session.connection()
    ordered = sorted(keys, key=lambda key: key.request_id)
    if accepted := [_row(key) for key in ordered if not key.refused]:
        connection.execute(_INSERT, accepted)
    if refused := [_row(key) for key in ordered if key.refused]:
        past = connection.execute(sa.select(models.utcnow())).scalar_one() - KEPT + REFUSAL_KEPT
        connection.execute(_INSERT, [{**row, "refused": True, "counted_from": past} for row in refused])


def insert_unless_known(session: orm.Session, key: Key) -> Key | None:
    """Insert the key of a request that is answered now; return the key of an answer that another transaction gave."""
    connection = session.connection()
    if connection.execute(_INSERT_UNLESS_KNOWN[connection.dialect.name], _row(key)).rowcount:
        return None
    return find(session, {key.request_id: None})[key.request_id]


def _row(key: Key) -> dict[str, Any]:
    return {"request_id": key.request_id, "volume_id": key.volume_id, "answer": {**key.answer, _VERB: key.verb}}


def purge(session: orm.Session, limit: int = dialects.CHUNK_SIZE) -> int:
    """Delete the keys of expired requests, at most ``limit`` of them; return their number."""
    key, volume = models.RequestKey, models.Volume
    before = session.execute(sa.select(models.utcnow())).scalar_one() - KEPT
    has_volume = sa.exists().where(volume.id == key.volume_id)
    old = session.scalars(
        sa.select(key.request_id).where(key.counted_from < before, sa.or_(key.refused, ~has_volume)).limit(limit)
    ).all()
    for chunk in dialects.in_chunks(old):
        session.execute(sa.delete(key).where(key.request_id.in_(chunk)).execution_options(synchronize_session=False))
    return len(old)
