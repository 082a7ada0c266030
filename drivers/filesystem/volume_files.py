# SPDX-License-Identifier: Apache-2.0
"""Volumes as files in one folder: the system calls, and what a crash between any two of them leaves.

A new file has no name until it is complete (``O_TMPFILE``), so a crash leaves nothing behind, and the name is given by
``linkat``, which never replaces a file. A file is reached through its folder's descriptor, and symbolic links are never
followed. Sizes are bytes. All functions raise OSError.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

_MODE = 0o600
_FALLOC_FL_KEEP_SIZE = 1
_RENAME_NOREPLACE = 1
_BLOCK = 512  # of st_blocks, whatever the file system's own block size is

#: What is said where there is no room: the disk is full, a quota is exhausted, files cannot be that large.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: What a file system says that knows no unnamed files.
NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR)

_libc = ctypes.CDLL(None, use_errno=True)
# os.posix_fallocate() writes the whole file where the file system cannot allocate; fallocate(2) says so instead.
_fallocate = _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_fallocate.restype = ctypes.c_int
_renameat2 = _libc.renameat2
_renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
_renameat2.restype = ctypes.c_int

#: A file system keeps the map of a file's extents in blocks that count as the file's. They are less than this share of
#: it (12 bytes for each 4 KiB block at the very worst), and not part of what the volume was given.
_MAP_SHARE = 128


@dataclass(frozen=True, slots=True)
class File:
    """A regular file: its name, apparent size, and the bytes that it takes up."""

    name: str
    size: int
    used: int


def opened(path: str) -> contextlib.AbstractContextManager[int]:
    """Open a folder, itself no symbolic link."""
    return _opened(path, None)


@contextlib.contextmanager
def locked(folder: int) -> Iterator[None]:
    """Keep every other holder of the folder's lock out, thread or process. The kernel unlocks if this process dies."""
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


def identity(folder: int) -> tuple[int, int]:
    """Return what tells this folder from all others, until it is unmounted."""
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def read_only(folder: int) -> bool:
    """Tell whether the file system of the folder takes no changes: mounted so, or by itself after an error."""
    return bool(os.fstatvfs(folder).f_flag & os.ST_RDONLY)


def files(folder: int) -> Iterator[File]:
    """Go through the regular files in the folder, each once, even if it has two names."""
    linked: set[int] = set()
    # Opened anew each time: btrfs shows what was there when a folder was opened, not when it is read.
    with _opened(".", folder) as now, os.scandir(now) as entries:
        for entry in entries:
            try:
                if not entry.is_file(follow_symlinks=False):
                    continue
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # deleted meanwhile
                continue
            if status.st_nlink > 1:
                if status.st_ino in linked:
                    continue
                linked.add(status.st_ino)
            yield File(entry.name, status.st_size, _used(status))


def size(folder: int, name: str) -> int | None:
    """Return the apparent size of a file, None if there is none of that name."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "there is something of that name that is not a regular file")
    return status.st_size


@contextlib.contextmanager
def unnamed(folder: int) -> Iterator[int]:
    """Make a file without a name, which is gone when closed unless :func:`give_name` was called."""
    descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, _MODE, dir_fd=folder)
    try:
        yield descriptor
    finally:
        if os.fstat(descriptor).st_nlink == 0:
            os.ftruncate(descriptor, 0)  # see remove()
        os.close(descriptor)


@contextlib.contextmanager
def existing(folder: int, name: str, write: bool = True) -> Iterator[int]:
    """Open a file."""
    mode = os.O_RDWR if write else os.O_RDONLY
    # Without O_NONBLOCK a pipe of that name would be waited for.
    descriptor = os.open(name, mode | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "there is something of that name that is not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def give_name(folder: int, descriptor: int, name: str) -> None:
    """Give a file made by :func:`unnamed` its name. Raises FileExistsError rather than replace another."""
    os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)


def rename(folder: int, old: str, new: str) -> None:
    """Give a file another name. Raises FileExistsError rather than replace another."""
    if _renameat2(folder, os.fsencode(old), folder, os.fsencode(new), _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def names(descriptor: int) -> int:
    """Return how many names a file has."""
    return os.fstat(descriptor).st_nlink


def used(descriptor: int) -> int:
    """Return how many bytes a file takes up."""
    return _used(os.fstat(descriptor))


def allocate(descriptor: int) -> None:
    """Give a file the space for all its holes. Where that fails, some of it may have been given."""
    _allocate(descriptor, 0, os.fstat(descriptor).st_size)


def grow(descriptor: int, new_size: int, allocate: bool) -> None:
    """Make a file larger: with ``allocate`` the growth takes up its space now, otherwise as it is written.

    The size changes in one step, after the space is there. Where anything fails, the file is as it was before.
    """
    old_size = os.fstat(descriptor).st_size
    try:
        if allocate and new_size > old_size:
            _allocate(descriptor, old_size, new_size - old_size)
        os.ftruncate(descriptor, new_size)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, old_size)  # also of what ext4 had found until the disk was full
        raise


def trim(descriptor: int) -> None:
    """Give back space allocated beyond the end of a file."""
    os.ftruncate(descriptor, os.fstat(descriptor).st_size)


def trimmed(folder: int, file: File) -> bool:
    """Give back what an interrupted :func:`grow` left beyond the end of a file; tell if there was anything."""
    with existing(folder, file.name) as descriptor:
        trim(descriptor)
        os.fsync(descriptor)
        return _used(os.fstat(descriptor)) < file.used


def remove(folder: int, name: str) -> None:
    """Delete a file, if there is one, and give back its space even if somebody has it open."""
    if size(folder, name) is None:
        return
    with existing(folder, name) as descriptor:
        os.unlink(name, dir_fd=folder)
        if os.fstat(descriptor).st_nlink == 0:
            # Left to the file system it would come back some time later (xfs), when others have already looked.
            os.ftruncate(descriptor, 0)


def can_allocate(folder: int) -> bool:
    """Tell whether the file system can allocate space in advance."""
    with unnamed(folder) as descriptor:
        try:
            _allocate(descriptor, 0, 4096)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return False
            if error.errno not in NO_ROOM:
                raise
    return True


@contextlib.contextmanager
def _opened(path: str, folder: int | None) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _allocate(descriptor: int, offset: int, length: int) -> None:
    while _fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, offset, length) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def _used(status: os.stat_result) -> int:
    used = status.st_blocks * _BLOCK
    return status.st_size if status.st_size < used <= status.st_size + status.st_size // _MAP_SHARE else used
