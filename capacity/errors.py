# SPDX-License-Identifier: Apache-2.0
"""The errors that cross rooms.

One root and few leaves. The message is written for the person who reads it: it names the thing, the value and the way
out. A refusal of a request for lack of room is no error but a decision (:mod:`tonnage.capacity.decision`).
"""


class TonnageError(Exception):
    """Root of all errors that Tonnage raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigurationError(TonnageError):
    """An option, or a combination of options, cannot work. A daemon that meets it does not start."""


class InvalidInput(TonnageError):
    """A value that somebody sent is malformed or out of range."""


class NotFound(TonnageError):
    """The named thing does not exist, or not for this project."""


class Conflict(TonnageError):
    """The state of the thing does not permit what was asked."""


class OverQuota(TonnageError):
    """What was asked for goes beyond what the project may have."""


class CapacityExceeded(TonnageError):
    """A driver refused: the operation would break a limit of its pool."""


class DriverError(TonnageError):
    """The storage could not do what was asked.

    ``clean`` tells that the driver made sure that nothing was left behind on the storage.
    """

    def __init__(self, message: str, clean: bool = False) -> None:
        super().__init__(message)
        self.clean = clean


class Unavailable(TonnageError):
    """The other side (a scheduler, the message bus, the database) did not answer in time."""
