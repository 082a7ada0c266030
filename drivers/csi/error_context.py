# SPDX-License-Identifier: Apache-2.0
"""On whose behalf something was tried that failed. ``doing`` are words for that, which errors begin with."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tonnage.capacity import errors
from tonnage.drivers.csi.connection import CallFailed
from tonnage.drivers.csi.plugin import BadAnswer


@contextlib.contextmanager
def asking(doing: str, *, clean: bool = False) -> Iterator[None]:
    """Raise DriverError where a call to the plugin fails; ``clean`` if nothing was done by then."""
    try:
        yield
    except (CallFailed, BadAnswer) as error:
        raise errors.DriverError(f"{doing}: {error}", clean=clean) from error


@contextlib.contextmanager
def recording(doing: str, file: Path) -> Iterator[None]:
    """Raise DriverError where the state file cannot be used."""
    try:
        yield
    except sqlite3.Error as error:
        raise errors.DriverError(f"{doing}: csi_state_file {file}: {error}") from error
