# SPDX-License-Identifier: Apache-2.0
"""Copies and comparisons of sparse files. All functions raise OSError."""

import errno
import fcntl
import os
from collections.abc import Iterator

_FICLONE = 0x40049409
_CHUNK = 16 << 20

#: Errors of a file system that cannot share blocks, or not between these two files.
_SHARING_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM, errno.ETXTBSY)


def copy(source: int, target: int, share: bool) -> bool:
    """Copy the content of a file into an empty one of at least its size. Return False if the source changed meanwhile.

    Holes stay holes. (If writes extended the target, xfs would allocate more than the data.) With ``share`` the two
    files share their blocks until one of them is written to, if the file system supports it.
    """
    before = _version(source)
    if not (share and _share_blocks(source, target)):
        for begin, end in _data_ranges(source):
            _copy_range(source, target, begin, end)
    return _version(source) == before


def same_content(first: int, second: int) -> bool:
    """Return whether two files have the same content; the longer file may end with further zeros."""
    return all(_equal_range(first, second, begin, end) for file in (first, second) for begin, end in _data_ranges(file))


def data_size(file: int) -> int:
    """Return the bytes of a file outside of its holes."""
    return sum(end - begin for begin, end in _data_ranges(file))


def _version(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_size, status.st_mtime_ns


def _share_blocks(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno not in _SHARING_UNSUPPORTED:
            raise
        return False
    return True


def _data_ranges(file: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file outside of its holes, each as its first byte and the byte after its last."""
    end = 0
    while True:
        try:
            begin = os.lseek(file, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # there is only a hole until the end
                return
            raise
        end = os.lseek(file, begin, os.SEEK_HOLE)
        yield begin, end


def _copy_range(source: int, target: int, begin: int, end: int) -> None:
    # Not copy_file_range(2), which shares blocks where it can: a thick volume has to use the blocks allocated to it.
    os.lseek(target, begin, os.SEEK_SET)
    while begin < end:
        copied = os.sendfile(target, source, begin, min(end - begin, _CHUNK))
        if copied == 0:  # the source was truncated
            return
        begin += copied


def _equal_range(first: int, second: int, begin: int, end: int) -> bool:
    while begin < end:
        length = min(end - begin, _CHUNK)
        # A read beyond the end of the shorter file returns nothing.
        if os.pread(first, length, begin).ljust(length, b"\0") != os.pread(second, length, begin).ljust(length, b"\0"):
            return False
        begin += length
    return True
