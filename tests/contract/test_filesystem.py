# SPDX-License-Identifier: Apache-2.0
"""The contract suite for the file-system driver, with several configurations and file systems."""

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.unit.drivers import configured, mounts
from tonnage.drivers import contract, loader
from tonnage.drivers.base import Driver, StoredVolume

_CONFIGURATIONS = {
    "one-pool": "filesystem_size_limit_gb = 4\nfilesystem_provisioning = both",
    "reserve-and-ratio": (
        "filesystem_size_limit_gb = 5\nfilesystem_provisioning = both\n"
        "reserved_percentage = 20\nmax_over_subscription_ratio = 2.5"
    ),
    "auto-ratio": "filesystem_size_limit_gb = 4\nfilesystem_provisioning = both\nmax_over_subscription_ratio = auto",
    "a-pool-of-each-kind": (
        "filesystem_pools = thin, thick\nfilesystem_size_limit_gb = 4\n"
        "[fs:thick]\nfilesystem_provisioning = thick\nreserved_percentage = 25"
    ),
}

#: Each setting of the heavy configurations is in tests of its own too.
_HEAVY = ("one-pool", "auto-ratio")
_PARAMETERS = [pytest.param(name, marks=pytest.mark.heavy) if name in _HEAVY else name for name in _CONFIGURATIONS]


class _FilesystemContract(contract.DriverContract):
    """The common fixtures of all configurations."""

    @pytest.fixture
    def make_origin(self, tmp_path: Path) -> Iterator[contract.MakeDriver]:
        folder = tmp_path / "far"
        (folder / "conf").mkdir(parents=True)
        text = f"[far]\nvolume_driver = filesystem\nfilesystem_path = {folder}/volumes\nfilesystem_size_limit_gb = 4\n"
        yield functools.partial(loader.load, "other@far", "far", configured.conf(folder / "conf", text))
        shutil.rmtree(folder)

    def open_volume(self, driver: Driver, stored: StoredVolume) -> BinaryIO:
        return (_folders(driver)[stored.pool] / stored.id).open("r+b")

    def take_storage_away(self, driver: Driver) -> None:
        for folder in _folders(driver).values():
            shutil.rmtree(folder)
            folder.mkdir()


def _folders(driver: Driver) -> dict[str, Path]:
    return {pool["pool_name"]: Path(pool["location_info"].split(":", 2)[2]) for pool in driver.report()}


class TestFilesystemDriver(_FilesystemContract):
    @pytest.fixture(params=_PARAMETERS)
    def make_driver(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[contract.MakeDriver]:
        volumes = tmp_path / "volumes"
        text = f"[fs]\nvolume_driver = filesystem\nfilesystem_path = {volumes}\n{_CONFIGURATIONS[request.param]}\n"
        yield functools.partial(loader.load, "host@fs", "fs", configured.conf(tmp_path, text))
        # pytest would keep it for three more runs, and thick volumes use real space.
        shutil.rmtree(volumes, ignore_errors=True)


#: The others differ from ``xfs`` in no test so far, so only the heavy tests have them.
@pytest.fixture(
    scope="module", params=["xfs", *(pytest.param(kind, marks=pytest.mark.heavy) for kind in ("ext4", "btrfs"))]
)
def mount(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with mounts.mounted(request.param, tmp_path_factory.mktemp("mounts"), 6144) as point:
        yield point


class TestFilesystemDriverOnOtherFileSystems(_FilesystemContract):
    """On the other supported file systems."""

    @pytest.fixture
    def make_driver(self, mount: Path, tmp_path: Path) -> Iterator[contract.MakeDriver]:
        volumes = mount / "volumes"
        text = (
            f"[fs]\nvolume_driver = filesystem\nfilesystem_path = {volumes}\n"
            "filesystem_size_limit_gb = 4\nfilesystem_provisioning = both\n"
        )
        yield functools.partial(loader.load, "host@fs", "fs", configured.conf(tmp_path, text))
        shutil.rmtree(volumes)
        mounts.commit(mount)
