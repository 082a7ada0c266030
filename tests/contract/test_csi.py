# SPDX-License-Identifier: Apache-2.0
"""The contract suite for the CSI driver, with a plugin that lists its volumes and with one that does not."""

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.csi_plugin import CsiPlugin, Settings
from tests.unit.drivers import configured
from tonnage.capacity.units import GIB
from tonnage.drivers import contract, loader
from tonnage.drivers.base import Driver


@pytest.fixture(
    scope="module",
    params=[pytest.param(True, id="with-lists"), pytest.param(False, id="without-lists", marks=pytest.mark.heavy)],
)
def plugin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CsiPlugin]:
    settings = Settings(sizes={"": 4 * GIB}, lists=request.param)
    with CsiPlugin(tmp_path_factory.mktemp("csi"), settings) as plugin:
        yield plugin


class TestCSIDriver(contract.DriverContract):
    @pytest.fixture
    def make_driver(self, plugin: CsiPlugin, tmp_path: Path) -> Iterator[contract.MakeDriver]:
        text = (
            f"[csi]\nvolume_driver = csi\ncsi_endpoint = {plugin.endpoint}\n"
            f"csi_state_file = {tmp_path}/state.db\nreserved_percentage = 25\n"
        )
        yield functools.partial(loader.load, "host@csi", "csi", configured.conf(tmp_path, text))
        shutil.rmtree(plugin.folder, ignore_errors=True)

    def take_storage_away(self, driver: Driver) -> None:
        file = Path(driver.conf.csi_state_file)
        file.unlink()
        file.with_name(f"{file.name}.ledger").unlink()
