# SPDX-License-Identifier: Apache-2.0
"""The owner of a place on the disk, recorded by a mark that its first user leaves there.

Two pools in one folder would each treat the other's volumes as copies or orphans that may be deleted. The mark is a
dangling symbolic link whose target is the owner's name. It is created in one step and never replaces another mark, so
that of two simultaneous users one learns of the other. It needs no block on a full disk. It is not a regular file, so
no release lists, counts or manages it, including releases that do not know it.
"""

import errno
import os
from collections.abc import Collection
from pathlib import Path

from tonnage.capacity import errors

#: The name of the owner where the mark is not a symbolic link.
UNKNOWN_OWNER = "of unknown name"


def owner(mark: str | Path, folder: int | None = None) -> str | None:
    """Return the owner that a mark names, None without a mark.

    ``mark`` is relative to the open folder. Raises OSError.
    """
    try:
        return os.fsencode(os.readlink(mark, dir_fd=folder)).decode(errors="backslashreplace")
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return UNKNOWN_OWNER


def claim(name: str, mark: str | Path, folder: int | None = None) -> str:
    """Create a mark with this name unless there is one; return the owner that the mark names then. Raises OSError."""
    while True:
        current_owner = owner(mark, folder)
        if current_owner is not None:
            return current_owner
        try:
            os.symlink(name, mark, dir_fd=folder)
        except FileExistsError:  # another process was faster: read its name
            continue
        return name


def file_ledgers(file: Path | None) -> Collection[str]:
    """Return the id of the ledger that a driver's state file is marked with, if it is. Raises DriverError."""
    try:
        ledger_id = None if file is None else owner(_ledger_mark(file))
    except OSError as error:
        raise errors.DriverError(f"the ledger of {file} cannot be read: {error.strerror}") from error
    return () if ledger_id is None else (ledger_id,)


def mark_file(file: Path | None, ledger_id: str) -> None:
    """Mark a driver's state file with the id of its ledger. Raises DriverError."""
    try:
        if file is not None:
            claim(ledger_id, _ledger_mark(file))
    except OSError as error:
        raise errors.DriverError(f"{file} cannot be marked with its ledger: {error.strerror}") from error


def _ledger_mark(file: Path) -> Path:
    return file.with_name(f"{file.name}.ledger")
