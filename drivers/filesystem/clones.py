# SPDX-License-Identifier: Apache-2.0
"""Volumes of the ``filesystem`` driver that begin as copies of others: reaching the source, and counting what comes."""

import contextlib
import os
import socket
from collections.abc import Iterator

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, Source, Volume
from tonnage.drivers.filesystem import sparse_copy, volume_files
from tonnage.drivers.filesystem.folder_pool import SAFE_NAME, Copying, Pool


@contextlib.contextmanager
def opened(source: Source, path: str | None, doing: str, clean: bool) -> Iterator[tuple[int, int]]:
    """Open the folder, None if it is not on this machine, and in it the file of a volume that is to be copied."""
    if path is None:
        raise errors.DriverError(
            f"{doing}: {source.location or 'a pool without location_info'!r} is no folder on this machine, "
            f"{socket.gethostname()}; volumes can be taken over from folders here",
            clean=clean,
        )
    if not SAFE_NAME.fullmatch(source.id):
        raise errors.DriverError(f"{doing}: {source.id!r} is no name for a file", clean=clean)
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(volume_files.opened(path))
            file = stack.enter_context(volume_files.existing(folder, source.id, write=False))
        except OSError as error:
            raise errors.DriverError(
                f"{doing}: volume {source.id} cannot be read: {error.strerror or error} in {path}", clean=clean
            ) from error
        yield folder, file


def make(driver: Driver, pool: Pool, folder: int, volume: Volume, content: int, doing: str) -> None:
    """Make the file with the content of another; others need not wait meanwhile, what it will take is kept."""
    size, thick = volume.size_gb * GIB, volume.provisioning is Provisioning.THICK
    if os.fstat(content).st_size > size:
        raise errors.DriverError(
            f"{doing}: its source has {os.fstat(content).st_size} bytes, more than {volume.size_gb} GiB", clean=True
        )
    with volume_files.unnamed(folder) as file:
        try:
            with volume_files.locked(folder):
                figures = pool.figures(folder, with_copies=True)
                driver.admit(figures, volume, volume.size_gb)
                data = 0 if thick else sparse_copy.data_size(content)
                driver.admit_data(figures, volume, data / GIB)
                volume_files.grow(file, size, allocate=thick)
                pool.copying[volume.id] = Copying(size=size, taken=size if thick else 0, wanted=data)
            if not sparse_copy.copy(content, file, share=not thick):
                raise errors.DriverError(f"{doing}: its source was written to meanwhile", clean=True)
            os.fsync(file)
            with volume_files.locked(folder):
                del pool.copying[volume.id]
                volume_files.give_name(folder, file, volume.id)
        finally:
            pool.copying.pop(volume.id, None)
