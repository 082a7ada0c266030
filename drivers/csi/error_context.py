# SPDX-License-Identifier: Apache-2.0
"""Context managers that turn low-level errors into driver errors. ``context`` is the beginning of the message."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tonnage.capacity import errors
from tonnage.drivers.csi.connection import CallFailed
from tonnage.drivers.csi.plugin import InvalidResponse


@contextlib.contextmanager
def for_plugin_call(context: str, *, clean: bool = False, repeated: bool = False) -> Iterator[None]:
    """Raise DriverError where a call to the plugin fails; ``clean`` if nothing has been changed before.

    Raise OutcomeUnknown instead if the operation is ``repeated`` until the plugin answers.
    """
    try:
        yield
    except (CallFailed, InvalidResponse) as error:
        if repeated:
            raise errors.OutcomeUnknown(f"{context}: {error}") from error
        raise errors.DriverError(f"{context}: {error}", clean=clean) from error


@contextlib.contextmanager
def for_state_file(context: str, file: Path) -> Iterator[None]:
    """Raise OutcomeUnknown where the state file cannot be used: an earlier request may not be recorded in it."""
    try:
        yield
    except sqlite3.Error as error:
        raise errors.OutcomeUnknown(f"{context}: csi_state_file {file}: {error}") from error
