# SPDX-License-Identifier: Apache-2.0
"""Working off the outbox: one thread for each channel, so that one that is blocked keeps no other waiting."""

import logging
import threading
import time
from collections.abc import Callable

from tonnage.capacity import errors
from tonnage.ledger.catalog import notification_outbox
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import loudness

LOG = logging.getLogger(__name__)

#: Seconds between two looks for what other schedulers have left.
POLL = 5.0

#: For how many seconds a lease keeps others away, and for how many it is used before another is taken.
LEASE = 15.0
_USED = LEASE / 3

#: Seconds from one failure to the next attempt, at first and at most.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0

#: Messages that are sent before those that were are forgotten: as many come twice if this process is killed.
_TOGETHER = 20

#: Seconds that whoever stops it waits for the message that is on its way.
_PATIENCE = 5.0


class Postman:
    """Sends what waits on one channel, while this scheduler (``owner``) has its lease.

    ``send`` raises :class:`~tonnage.capacity.errors.TonnageError` for what was not taken; it is tried again later.
    """

    def __init__(
        self,
        database: Database,
        channel: str,
        owner: str,
        send: Callable[[notification_outbox.Message], None],
        *,
        poll: float = POLL,
        first_pause: float = _FIRST_PAUSE,
    ) -> None:
        self.channel = channel
        self._database = database
        self._owner = owner
        self._send = send
        self._poll = poll
        self._first_pause = self._pause = first_pause
        self._woken = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"announcements-{channel}", daemon=True)

    def hand_to(self, send: Callable[[notification_outbox.Message], None]) -> None:
        """Have what is sent from now on taken by another one."""
        self._send = send

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Look for messages now."""
        self._woken.set()

    def stop(self) -> None:
        """End after the message that is on its way. What is left waits for whoever comes next."""
        self._stopped = True
        self._woken.set()

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the end, but not for ever."""
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        while not self._stopped:
            self._woken.clear()
            if not self._work_off():
                # That it is woken changes nothing about what keeps messages from being sent.
                self._rest(self._pause)
                self._pause = min(_LONGEST_PAUSE, 2 * self._pause)
            else:
                self._pause = self._first_pause
                self._woken.wait(self._poll)

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopped and (left := until - time.monotonic()) > 0:
            self._woken.wait(left)
            self._woken.clear()

    def _work_off(self) -> bool:
        """Send what there is; tell whether all of it was taken."""
        try:
            while not self._stopped and self.work():
                pass
        except errors.TonnageError as error:
            LOG.log(loudness(error), "Announcements wait (%s): %s", self.channel, error.message)
            return False
        except Exception:
            LOG.exception("Announcements wait (%s)", self.channel)
            return False
        return True

    def work(self) -> bool:
        """Send a few messages if there are any and it is this scheduler's turn; tell whether there may be more.

        Raises :class:`~tonnage.capacity.errors.TonnageError` for one that was not taken: it and all after it wait.
        """
        with self._database.reading() as session:
            if not notification_outbox.waiting(session, self.channel, 1):
                return False
        if not self._database.run(notification_outbox.lease, self.channel, self._owner, LEASE):
            return False
        began = time.monotonic()
        # Not before: whoever had the lease may have sent what there was.
        with self._database.reading() as session:
            messages = notification_outbox.waiting(session, self.channel, _TOGETHER)
        sent: list[str] = []
        try:
            for message in messages:
                if self._stopped or time.monotonic() - began > _USED:
                    break
                self._send(message)
                sent.append(message.id)
        finally:
            if sent:
                self._database.run(notification_outbox.forget, sent)
        return bool(sent)
