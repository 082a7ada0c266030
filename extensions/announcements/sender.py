# SPDX-License-Identifier: Apache-2.0
"""Sender of the messages in the outbox, with one thread for each channel, so that a blocked channel delays no other."""

import logging
import time
from typing import Protocol

from tonnage.capacity import errors
from tonnage.extensions.announcements import notification_outbox
from tonnage.ledger.db.database import Database
from tonnage.ledger.db.db_errors import log_level
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds between two reads of the outbox, which find messages that other schedulers have left.
POLL_INTERVAL = 5.0

#: Seconds for which a lease excludes other schedulers, and seconds for which it is used before it is renewed.
LEASE = 15.0
_LEASE_USE = LEASE / 3

#: Back-off after a failure: first and maximum delay in seconds.
_FIRST_DELAY = 1.0
_MAX_DELAY = 60.0

#: Messages that are sent before they are deleted from the outbox. If this process is killed, at most as many are sent
#: twice.
_BATCH = 20

#: Seconds to wait at the end for the message that is being sent.
_STOP_TIMEOUT = 5.0


class Recipient(Protocol):
    """The recipient of the messages of a channel."""

    def send(self, message: notification_outbox.Message) -> None:
        """Send a message. Raises :class:`~tonnage.capacity.errors.TonnageError` if it was not sent."""


class NotificationSender:
    """Sends the messages of one channel to its recipient while this scheduler (``owner``) has the channel's lease.

    A message that was not sent is retried later.
    """

    def __init__(
        self,
        database: Database,
        channel: str,
        owner: str,
        recipient: Recipient,
        *,
        poll: float = POLL_INTERVAL,
        first_delay: float = _FIRST_DELAY,
    ) -> None:
        self.channel = channel
        self._database = database
        self._owner = owner
        self.recipient = recipient
        self._first_delay = self._delay = first_delay
        self._worker = Worker(f"announcements-{channel}", self._run_once, poll)

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()
        self._worker.wake()

    def wake(self) -> None:
        """Read the outbox now."""
        self._worker.wake()

    def stop(self) -> None:
        """Stop after the current message. The rest stays in the outbox for the next owner of the lease."""
        self._worker.stop(timeout=0.0)

    @property
    def ended(self) -> bool:
        """Return whether the thread has ended."""
        return not self._worker.alive

    def wait(self, timeout: float = _STOP_TIMEOUT) -> None:
        """Wait for the end of the thread, at most ``timeout`` seconds."""
        self._worker.stop(timeout)

    def _run_once(self) -> float | None:
        if self._send_all():
            self._delay = self._first_delay
            return None
        # New messages do not end the back-off, because they do not remove the cause of the failure.
        self._worker.pause(self._delay)
        self._delay = min(_MAX_DELAY, 2 * self._delay)
        return 0.0

    def _send_all(self) -> bool:
        """Send all messages of the channel. Return whether all of them were sent."""
        try:
            while not self._worker.stopping and self.send_batch():
                pass
        except errors.TonnageError as error:
            LOG.log(log_level(error), "Announcements wait (%s): %s", self.channel, error.message)
            return False
        except Exception:
            LOG.exception("Announcements wait (%s)", self.channel)
            return False
        return True

    def send_batch(self) -> bool:
        """Send a batch of messages if this scheduler has the lease. Return whether there may be more.

        Raises :class:`~tonnage.capacity.errors.TonnageError` for a message that was not sent. It and all messages after
        it stay in the outbox.
        """
        with self._database.reading() as session:
            if not notification_outbox.load(session, self.channel, 1):
                return False
        if not self._database.run(notification_outbox.take_lease, self.channel, self._owner, LEASE):
            return False
        began = time.monotonic()
        # Read after taking the lease: the previous owner may have sent the messages meanwhile.
        with self._database.reading() as session:
            messages = notification_outbox.load(session, self.channel, _BATCH)
        sent: list[str] = []
        try:
            for message in messages:
                if self._worker.stopping or time.monotonic() - began > _LEASE_USE:
                    break
                self.recipient.send(message)
                sent.append(message.id)
        finally:
            if sent:
                self._database.run(notification_outbox.delete, sent)
        return bool(sent)
