# SPDX-License-Identifier: Apache-2.0
"""The keys of requests: the same request delivered again is answered, and nothing is done twice.

A key is written in the transaction in which its request takes effect, so that there is never one without the other. One
that could not take effect as things were has one as well: else it could when nobody expects it any more, where a
scheduler that was stopped with it in its hands goes on after another one has answered.
"""

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models

#: What a request may be for beside the verbs of claims.
GROUP = "group"
RETYPE = "retype"
UNMANAGE = "unmanage"

#: Errors that a request is answered with as things are, which at another time it might not be.
FINAL = (errors.Conflict, errors.OverQuota)

#: Where the answer of a request, as it is kept, tells what the request was for, and by which error it was refused.
_VERB = "verb"
_ERROR = "error"
_MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class Key:
    """A request, what it was for (the volume, of a group the first one, and the verb), and the answer it is given."""

    request_id: str
    volume_id: str
    verb: str
    answer: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def refused(cls, request_id: str, volume_id: str, verb: str, error: errors.TonnageError) -> "Key":
        """Return the key of a request that was answered with one of the errors in :data:`FINAL`."""
        [name] = [known.__name__ for known in FINAL if isinstance(error, known)]
        return cls(request_id, volume_id, verb, {_ERROR: name, _MESSAGE: error.message})

    def require(self, volume_id: str, verb: str) -> None:
        """Raise :class:`~tonnage.capacity.errors.Conflict` unless that is what the request was for, and the error that
        it was refused with, if it was.
        """
        # The release before did not keep the verb.
        if (self.volume_id, self.verb or verb) != (volume_id, verb):
            raise errors.Conflict(
                f"request id {self.request_id} has been used for another request ({self.verb or 'one'} of volume "
                f"{self.volume_id}): each request needs an id of its own"
            )
        if _ERROR in self.answer:
            # One that a later release may keep is a refusal as well.
            kinds = {error.__name__: error for error in FINAL}
            raise kinds.get(self.answer[_ERROR], errors.Conflict)(self.answer[_MESSAGE])


def find(session: orm.Session, request_ids: Collection[str]) -> dict[str, Key]:
    """Return the keys of those of these requests that were answered before, by request id."""
    if not request_ids:
        return {}
    key = models.RequestKey
    rows = session.execute(sa.select(key.request_id, key.volume_id, key.answer).where(key.request_id.in_(request_ids)))
    return {row[0]: Key(row[0], row[1], row[2].pop(_VERB, ""), row[2]) for row in rows}


def keep(session: orm.Session, keys: Sequence[Key]) -> None:
    """Write the keys of requests that are answered now.

    Raises oslo.db's ``DBDuplicateEntry`` if one of their ids has been used by another transaction just now.
    """
    if not keys:
        return
    session.connection().execute(
        sa.insert(models.table(models.RequestKey)),
        [
            {"request_id": key.request_id, "volume_id": key.volume_id, "answer": {**key.answer, _VERB: key.verb}}
            for key in sorted(keys, key=lambda key: key.request_id)
        ],
    )


def purge(session: orm.Session, days: int) -> int:
    """Forget the keys of requests whose volume is gone, or never was, for that many days; return how many."""
    key, volume = models.RequestKey, models.Volume
    before = session.execute(sa.select(models.utcnow())).scalar_one() - datetime.timedelta(days=days)
    result = session.execute(
        sa.delete(key)
        .where(key.counted_from < before, ~sa.exists().where(volume.id == key.volume_id))
        .execution_options(synchronize_session=False)
    )
    return int(result.rowcount)  # type: ignore[attr-defined]
