# SPDX-License-Identifier: Apache-2.0
import functools
from pathlib import Path

import pytest

from tests.unit.drivers import configured
from tonnage.drivers import contract, loader
from tonnage.drivers.base import Driver


class TestMemoryDriver(contract.DriverContract):
    @pytest.fixture(params=["", "memory_storage_id = disk"], ids=["a-storage-each", "one-storage"])
    def make_driver(self, tmp_path: Path, request: pytest.FixtureRequest) -> contract.MakeDriver:
        conf = configured.conf(
            tmp_path,
            f"""
            [mem]
            volume_driver = memory
            memory_pools = 2
            memory_pool_size_gb = 5
            reserved_percentage = 20
            memory_state_file = {tmp_path / "state.json"}
            {request.param}
            """,
        )
        return functools.partial(loader.load, "host@mem", "mem", conf)

    @pytest.fixture
    def make_origin(self, tmp_path: Path) -> contract.MakeDriver:
        folder = tmp_path / "far"
        folder.mkdir()
        conf = configured.conf(folder, f"[far]\nvolume_driver = memory\nmemory_state_file = {folder / 'state.json'}\n")
        return functools.partial(loader.load, "other@far", "far", conf)

    def take_storage_away(self, driver: Driver) -> None:
        file = Path(driver.conf.memory_state_file)
        file.unlink()
        file.with_name(f"{file.name}.ledger").unlink()
