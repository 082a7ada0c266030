# SPDX-License-Identifier: Apache-2.0
"""Context managers that turn low-level errors into driver errors. ``context`` is the beginning of the message."""

import contextlib
import enum
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tonnage.capacity import errors
from tonnage.drivers.csi.connection import CallFailed
from tonnage.drivers.csi.plugin import InvalidResponse


class EarlierChanges(enum.Enum):
    """The changes that the operation may have made before a query of the plugin."""

    #: Nothing: a failed query ends the operation, which leaves nothing behind.
    NONE = enum.auto()
    #: Something that a later listing shows: a failed query ends the operation.
    FINISHED = enum.auto()
    #: Something that the plugin may still work on: the operation is repeated, however the query fails.
    PENDING = enum.auto()


@contextlib.contextmanager
def for_plugin_call(context: str, changes: EarlierChanges = EarlierChanges.FINISHED) -> Iterator[None]:
    """Raise DriverError where a query of the plugin fails, clean without earlier changes.

    Raise OutcomeUnknown instead if earlier changes are pending.
    """
    try:
        yield
    except (CallFailed, InvalidResponse) as error:
        if changes is EarlierChanges.PENDING:
            raise errors.OutcomeUnknown(f"{context}: {error}") from error
        raise errors.DriverError(f"{context}: {error}", clean=changes is EarlierChanges.NONE) from error


@contextlib.contextmanager
def for_state_file(context: str, file: Path) -> Iterator[None]:
    """Raise OutcomeUnknown where the state file cannot be used: an earlier request may not be recorded in it."""
    try:
        yield
    except sqlite3.Error as error:
        raise errors.OutcomeUnknown(f"{context}: csi_state_file {file}: {error}") from error
