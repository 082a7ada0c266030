# SPDX-License-Identifier: Apache-2.0
"""The file-system driver, between whose checks and changes others use the folder."""

from collections.abc import Callable, Mapping
from typing import Any

from tonnage.drivers.base import Volume
from tonnage.drivers.filesystem.driver import FilesystemDriver


class OvertakenDriver(FilesystemDriver):
    """Calls ``meanwhile``, if it is set, after a check that found enough space, which need not be so."""

    meanwhile: Callable[[], object] | None = None

    def admit(self, figures: Mapping[str, Any], volume: Volume, size_gb: float) -> None:
        if self.meanwhile is None:
            super().admit(figures, volume, size_gb)
        else:
            self.meanwhile()

    def admit_data(self, figures: Mapping[str, Any], volume: Volume, data_gb: float) -> None:
        if self.meanwhile is None:
            super().admit_data(figures, volume, data_gb)


def nothing() -> None:
    """Do not change the folder: it is as full as before the check."""
