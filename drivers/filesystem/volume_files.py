# SPDX-License-Identifier: Apache-2.0
"""Volumes as files in one folder: the system calls, safe against a crash between any two of them.

A new file has no name until it is complete (``O_TMPFILE``), so a crash leaves nothing behind. The name is given by
``linkat``, which never replaces a file. A file is opened through its folder's descriptor, and symbolic links are never
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
_BLOCK_BYTES = 512  # of st_blocks, for all block sizes of file systems

#: Errors for a lack of space: the disk is full, a quota is exhausted, files cannot be that large.
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: Errors of a file system without support for unnamed files.
UNNAMED_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EISDIR)

_libc = ctypes.CDLL(None, use_errno=True)
# os.posix_fallocate() writes the whole file where the file system cannot allocate; fallocate(2) returns an error.
_fallocate = _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_fallocate.restype = ctypes.c_int
_renameat2 = _libc.renameat2
_renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
_renameat2.restype = ctypes.c_int

#: A file system stores the map of a file's extents in blocks that count as the file's. They are less than this share of
#: the file (12 bytes for each 4 KiB block at the very worst), and not part of the volume's allocation.
_EXTENT_MAP_SHARE = 128


@dataclass(frozen=True, slots=True)
class File:
    """A regular file: its name, its apparent size, and the bytes that it uses on the disk."""

    name: str
    size: int
    used: int


@contextlib.contextmanager
def open_folder(path: str, folder: int | None = None) -> Iterator[int]:
    """Open a folder that is not a symbolic link, relative to an open ``folder`` if given; yields its descriptor."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(folder: int) -> Iterator[None]:
    """Hold the lock of the folder, against threads and processes. The kernel releases it if this process dies."""
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


def identity(folder: int) -> tuple[int, int]:
    """Return a value that differs from that of all other folders, until the folder is unmounted."""
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def read_only(folder: int) -> bool:
    """Return whether the folder's file system is read-only: mounted so, or by itself after an error."""
    return bool(os.fstatvfs(folder).f_flag & os.ST_RDONLY)


def files(folder: int) -> Iterator[File]:
    """Yield the regular files in the folder, each once, even if it has two names."""
    seen_inodes: set[int] = set()
    # The folder is opened anew: btrfs lists the entries of the time when a folder was opened, not when it is read.
    with open_folder(".", folder) as current, os.scandir(current) as entries:
        for entry in entries:
            try:
                if not entry.is_file(follow_symlinks=False):
                    continue
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # deleted meanwhile
                continue
            if status.st_nlink > 1:
                if status.st_ino in seen_inodes:
                    continue
                seen_inodes.add(status.st_ino)
            yield File(entry.name, status.st_size, _used_bytes(status))


def size(folder: int, name: str) -> int | None:
    """Return the apparent size of a file, None if there is no file of that name."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "there is something of that name that is not a regular file")
    return status.st_size


@contextlib.contextmanager
def unnamed_file(folder: int) -> Iterator[int]:
    """Create a file without a name; it is removed when the context ends, unless :func:`give_name` was called."""
    descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, _MODE, dir_fd=folder)
    try:
        yield descriptor
    finally:
        if os.fstat(descriptor).st_nlink == 0:
            os.ftruncate(descriptor, 0)  # see remove()
        os.close(descriptor)


@contextlib.contextmanager
def open_file(folder: int, name: str, write: bool = True) -> Iterator[int]:
    """Open a regular file; yields its descriptor."""
    mode = os.O_RDWR if write else os.O_RDONLY
    # Without O_NONBLOCK the open of a pipe would block.
    descriptor = os.open(name, mode | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "there is something of that name that is not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def give_name(folder: int, descriptor: int, name: str) -> None:
    """Give a file of :func:`unnamed_file` its name. Raises FileExistsError if the name is taken."""
    os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)


def rename(folder: int, old: str, new: str) -> None:
    """Rename a file. Raises FileExistsError if the new name is taken."""
    if _renameat2(folder, os.fsencode(old), folder, os.fsencode(new), _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def link_count(descriptor: int) -> int:
    """Return the number of a file's names."""
    return os.fstat(descriptor).st_nlink


def used_bytes(descriptor: int) -> int:
    """Return the bytes that a file uses on the disk."""
    return _used_bytes(os.fstat(descriptor))


def allocate(descriptor: int) -> None:
    """Allocate the space of all holes of a file. An error may leave some of it allocated."""
    _allocate(descriptor, 0, os.fstat(descriptor).st_size)


def grow(descriptor: int, new_size: int, allocate: bool) -> None:
    """Extend a file. With ``allocate`` the growth is allocated now, otherwise as it is written.

    The size changes in one step, after the allocation. After an error the file is as it was before.
    """
    old_size = os.fstat(descriptor).st_size
    try:
        if allocate and new_size > old_size:
            _allocate(descriptor, old_size, new_size - old_size)
        os.ftruncate(descriptor, new_size)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, old_size)  # also frees the blocks that ext4 found until the disk was full
        raise


def trim(descriptor: int) -> None:
    """Free the space allocated beyond the end of a file."""
    os.ftruncate(descriptor, os.fstat(descriptor).st_size)


def trim_excess(folder: int, file: File) -> bool:
    """Free the space that an interrupted :func:`grow` left beyond the end of a file; return whether there was any."""
    with open_file(folder, file.name) as descriptor:
        trim(descriptor)
        os.fsync(descriptor)
        return _used_bytes(os.fstat(descriptor)) < file.used


def remove(folder: int, name: str) -> None:
    """Delete a file if it exists, and free its space even if another process has it open."""
    if size(folder, name) is None:
        return
    with open_file(folder, name) as descriptor:
        os.unlink(name, dir_fd=folder)
        if os.fstat(descriptor).st_nlink == 0:
            # Without this xfs frees the space some time later, after other processes have read the free space.
            os.ftruncate(descriptor, 0)


def can_allocate(folder: int) -> bool:
    """Return whether the file system can allocate space in advance."""
    with unnamed_file(folder) as descriptor:
        try:
            _allocate(descriptor, 0, 4096)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return False
            if error.errno not in OUT_OF_SPACE:
                raise
    return True


def _allocate(descriptor: int, offset: int, length: int) -> None:
    while _fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, offset, length) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def _used_bytes(status: os.stat_result) -> int:
    used = status.st_blocks * _BLOCK_BYTES
    return status.st_size if status.st_size < used <= status.st_size + status.st_size // _EXTENT_MAP_SHARE else used
