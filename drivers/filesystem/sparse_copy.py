# SPDX-License-Identifier: Apache-2.0
"""The content of files: copied and compared with its holes. All functions raise OSError."""

import errno
import fcntl
import os
from collections.abc import Iterator

_FICLONE = 0x40049409
_CHUNK = 16 << 20

#: What a file system says that cannot share blocks, or not between these two files.
_NO_SHARING = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM, errno.ETXTBSY)


def copy(source: int, target: int, share: bool) -> bool:
    """Copy the content of a file into one of at least its size that has none. False if the source changed meanwhile.

    Holes stay holes. (If the target grew with what is written to it, xfs would allocate more than that.)
    With ``share`` the two have their blocks in common until one of them is written to, if the file system can do that.
    """
    before = _version(source)
    if not (share and _shared(source, target)):
        for begin, end in _data(source):
            _copy_range(source, target, begin, end)
    return _version(source) == before


def same(one: int, other: int) -> bool:
    """Tell whether two files have the same content; the longer one has nothing but zeros beyond the other's end."""
    return all(_equal(one, other, begin, end) for file in (one, other) for begin, end in _data(file))


def data_size(file: int) -> int:
    """Return how many bytes of a file are no holes."""
    return sum(end - begin for begin, end in _data(file))


def _version(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_size, status.st_mtime_ns


def _shared(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno not in _NO_SHARING:
            raise
        return False
    return True


def _data(file: int) -> Iterator[tuple[int, int]]:
    """Go through the parts of a file that are no holes, each from its first byte to before its last."""
    end = 0
    while True:
        try:
            begin = os.lseek(file, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole from there on
                return
            raise
        end = os.lseek(file, begin, os.SEEK_HOLE)
        yield begin, end


def _copy_range(source: int, target: int, begin: int, end: int) -> None:
    # Not copy_file_range(2), which shares blocks where it can: those that a thick volume was given have to be used.
    os.lseek(target, begin, os.SEEK_SET)
    while begin < end:
        copied = os.sendfile(target, source, begin, min(end - begin, _CHUNK))
        if copied == 0:  # somebody has cut it off
            return
        begin += copied


def _equal(one: int, other: int, begin: int, end: int) -> bool:
    while begin < end:
        length = min(end - begin, _CHUNK)
        # What is beyond the end of the shorter one reads as nothing.
        if os.pread(one, length, begin).ljust(length, b"\0") != os.pread(other, length, begin).ljust(length, b"\0"):
            return False
        begin += length
    return True
