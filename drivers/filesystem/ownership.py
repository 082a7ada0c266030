# SPDX-License-Identifier: Apache-2.0
"""The owner of a place on the disk, recorded by a mark that its first user leaves there.

Two pools in one folder would each treat the other's volumes as copies or orphans that may be deleted. The mark is a
dangling symbolic link whose target is the owner's name. It is created in one step and never replaces another mark, so
that of two simultaneous users one learns of the other. It needs no block on a full disk. It is not a regular file, so
no release lists, counts or manages it, including releases that do not know it.
"""

import errno
import os
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


def ledger_mark(file: Path) -> str | None:
    """Return the ledger mark of a driver's state file, None without one. Raises DriverError."""
    try:
        return owner(_ledger_link(file))
    except OSError as error:
        raise errors.DriverError(f"the ledger of {file} cannot be read: {error.strerror}") from error


def require_file_of_mark(file: Path, option: str) -> None:
    """Raise ConfigurationError if a state file is gone and its mark is left: a new file would have no volumes.

    ``option`` is the option that names the file, and its value. Raises OSError.
    """
    link = _ledger_link(file)
    if owner(link) is not None and not file.exists():
        raise errors.ConfigurationError(
            f"{option}: the file with the volumes is gone; restore it, or if they are lost for good, remove its mark "
            f"{link} too"
        )


def lost_mark(file: Path, mark: str) -> str | None:
    """Return the text of the error if a state file does not have this ledger mark any more. Raises OSError."""
    link = _ledger_link(file)
    if owner(link) == mark:
        return None
    return (
        f"{file} has lost its mark {link}, {mark}, so the volumes may be in another file; bring that back with the "
        "mark, or restart the agent"
    )


def mark_file(file: Path, mark: str) -> str:
    """Mark a driver's state file unless it has a ledger mark; return its mark. Raises DriverError."""
    try:
        return claim(mark, _ledger_link(file))
    except OSError as error:
        raise errors.DriverError(f"{file} cannot be marked with its ledger: {error.strerror}") from error


def _ledger_link(file: Path) -> Path:
    return file.with_name(f"{file.name}.ledger")
