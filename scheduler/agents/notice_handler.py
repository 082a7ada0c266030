# SPDX-License-Identifier: Apache-2.0
"""The handler of the notices of agents that send no reports. Belongs to the decision thread."""

import logging
from collections.abc import Sequence

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import log_level
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import backend_notices
from tonnage.rpc.messages import Notice
from tonnage.scheduler.cache.cache_refresh import CacheRefresh

LOG = logging.getLogger(__name__)


class NoticeHandler:
    """Records notices in the ledger, and takes them over from there.

    All schedulers receive each notice, and each records it: the first one does, and it changes nothing for the others,
    which read it a moment later anyway. So each of them knows it at once.
    """

    def __init__(self, database: Database, cache_refresh: CacheRefresh) -> None:
        self._database = database
        self._cache_refresh = cache_refresh

    def notices(self, messages: Sequence[Notice]) -> list[Exception | None]:
        """Record notices. One of a past epoch, or older than a report, changes nothing."""
        return [self._record(message) for message in messages]

    def _record(self, message: Notice) -> Exception | None:
        before = self._sentence(message.backend)
        try:
            self._database.run(_record, message)
            with self._database.reading() as session:
                row = backends.find(session, message.backend)
                if row is not None:
                    self._cache_refresh.refresh(session, [row])
        except errors.Unavailable as error:
            LOG.log(log_level(error), "A notice of backend %s is lost: %s", message.backend, error.message)
            return error
        except Exception as error:
            LOG.exception("A notice of backend %s could not be recorded", message.backend)
            return error
        sentence = self._sentence(message.backend)
        if sentence not in (None, before):
            LOG.info("Backend %s: %s; its pools are ranked last", message.backend, sentence)
        return None

    def _sentence(self, backend: str) -> str | None:
        return self._cache_refresh.hosts.notice(backend)


def _record(session: orm.Session, message: Notice) -> None:
    backend_notices.record(
        session,
        message.backend,
        epoch=message.epoch,
        seq=message.seq,
        code=message.code.value,
        text=message.text,
    )
