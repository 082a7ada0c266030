# SPDX-License-Identifier: Apache-2.0
"""Copies of volumes of the ``filesystem`` driver: opening the source, and accounting for the copy in progress."""

import contextlib
import os
import socket
from collections.abc import Iterator

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, Source, Volume
from tonnage.drivers.filesystem import sparse_copy, volume_files
from tonnage.drivers.filesystem.folder_pool import SAFE_NAME, CopyInProgress, Pool


@contextlib.contextmanager
def open_source(source: Source, path: str | None, context: str, clean: bool) -> Iterator[tuple[int, int]]:
    """Open the file of a volume to copy, and its folder; yields the descriptors of folder and file.

    ``path`` is the folder, None if it is not on this machine.
    """
    if path is None:
        raise errors.DriverError(
            f"{context}: {source.location or 'a pool without location_info'!r} is no folder on this machine, "
            f"{socket.gethostname()}; volumes can be taken over from folders here",
            clean=clean,
        )
    if not SAFE_NAME.fullmatch(source.id):
        raise errors.DriverError(f"{context}: {source.id!r} is no name for a file", clean=clean)
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(volume_files.open_folder(path))
            file = stack.enter_context(volume_files.open_file(folder, source.id, write=False))
        except OSError as error:
            raise errors.DriverError(
                f"{context}: volume {source.id} cannot be read: {error.strerror or error} in {path}", clean=clean
            ) from error
        yield folder, file


def create(driver: Driver, pool: Pool, folder: int, volume: Volume, source_file: int, context: str) -> None:
    """Create the volume with the content of ``source_file``, an open file.

    The folder is not locked while the content is copied; the space of the copy is accounted for in ``pool.copies``.
    """
    size, thick = volume.size_gb * GIB, volume.provisioning is Provisioning.THICK
    if os.fstat(source_file).st_size > size:
        raise errors.DriverError(
            f"{context}: its source has {os.fstat(source_file).st_size} bytes, more than {volume.size_gb} GiB",
            clean=True,
        )
    with volume_files.unnamed_file(folder) as file:
        try:
            with volume_files.locked(folder):
                figures = pool.figures(folder, with_copies=True)
                driver.admit(figures, volume, volume.size_gb)
                data_bytes = 0 if thick else sparse_copy.data_size(source_file)
                driver.admit_data(figures, volume, data_bytes / GIB)
                volume_files.grow(file, size, allocate=thick)
                pool.copies[volume.id] = CopyInProgress(size=size, allocated=size if thick else 0, to_write=data_bytes)
            if not sparse_copy.copy(source_file, file, share=not thick):
                raise errors.DriverError(f"{context}: its source was written to meanwhile", clean=True)
            os.fsync(file)
            with volume_files.locked(folder):
                del pool.copies[volume.id]
                volume_files.give_name(folder, file, volume.id)
        finally:
            pool.copies.pop(volume.id, None)
