# SPDX-License-Identifier: Apache-2.0
"""The errors that cross rooms.

One root and few leaves. The message is written for its reader: it names the thing, the value and the way
out. A refusal of a request for lack of room is no error but a decision (:mod:`tonnage.capacity.decision`).
"""


class TonnageError(Exception):
    """Root of all errors that Tonnage raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigurationError(TonnageError):
    """An option, or a combination of options, cannot work. A daemon that meets it does not start."""


class MissingPlugin(ConfigurationError):
    """The configuration names a filter, weigher or driver that no installed package has, as far as this process sees.

    A process that runs does not see a package that was installed later in a new place, such as another checkout.
    """


class InvalidInput(TonnageError):
    """A value that somebody sent is malformed or out of range."""


class NotFound(TonnageError):
    """The named thing does not exist, or not for this project."""


class Conflict(TonnageError):
    """The state of the resource does not permit the request."""


class KeyReused(TonnageError):
    """The key of an earlier request came again with a different request."""


class WrongStorage(TonnageError):
    """A backend shows other storage than that with the volumes that the ledger counts there."""


class OverQuota(TonnageError):
    """The request exceeds the limits of the project."""


class CapacityExceeded(TonnageError):
    """A driver refused: the operation would break a limit of its pool."""


class DriverError(TonnageError):
    """The storage could not complete the operation.

    ``clean`` tells that the driver made sure that nothing was left behind on the storage.
    """

    def __init__(self, message: str, clean: bool = False) -> None:
        super().__init__(message)
        self.clean = clean


class OutcomeUnknown(DriverError):
    """The storage has not told the outcome of an operation: it may have carried it out, or still do so.

    A repeated call of the driver finds out. Until then the capacity counts.
    """


class Unavailable(TonnageError):
    """The other side (a scheduler, the message bus, the database) did not answer in time."""


class NoAnswer(Unavailable):
    """No server has answered a call in time. One may have the message still, or carry it out."""


class DatabaseUnreachable(Unavailable):
    """The ledger's database cannot be reached from the process that got the call. Its log says so, once."""


class LedgerRefusal(DatabaseUnreachable):
    """The database answers, and refuses a transaction of the ledger, which has certainly no effect."""


class LedgerMoved(DatabaseUnreachable):
    """The ledger is used in another database from now on. A process that still has this one has to end."""


class Busy(Unavailable):
    """A scheduler has so much to do that the caller shall come back in ``seconds``."""

    def __init__(self, message: str, seconds: float = 5.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class Declined(Unavailable):
    """A scheduler cannot begin the call now and has done nothing of it: another scheduler may take it."""
