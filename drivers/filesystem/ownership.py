# SPDX-License-Identifier: Apache-2.0
"""Whose a place on the disk is: a mark that the first one who uses it leaves there.

Two pools in one place would each take the other's volumes for copies or orphans that may be deleted. The mark is a
symbolic link that leads nowhere, to the owner's name. It is made in one step and never replaces another, so that of two
who come at once one is told of the other. It needs no block on a full disk, and it is no file: nobody lists, counts or
manages it, a release that does not know it included.
"""

import errno
import os
from pathlib import Path

#: What the owner is called where the mark is something else than a link.
UNKNOWN = "of unknown name"


def owner(mark: str | Path, folder: int | None = None) -> str | None:
    """Return whose mark there is, at a path relative to an open folder; None if there is none. Raises OSError."""
    try:
        return os.fsencode(os.readlink(mark, dir_fd=folder)).decode(errors="backslashreplace")
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return UNKNOWN


def claim(name: str, mark: str | Path, folder: int | None = None) -> str:
    """Leave a mark with this name unless there is one, and return whose it is now. Raises OSError."""
    while True:
        present = owner(mark, folder)
        if present is not None:
            return present
        try:
            os.symlink(name, mark, dir_fd=folder)
        except FileExistsError:  # somebody was faster: see who
            continue
        return name
