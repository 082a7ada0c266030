# SPDX-License-Identifier: Apache-2.0
"""A plugin on a real socket, and backends with the CSI driver for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.csi_plugin import CsiPlugin, Settings
from tests.unit.drivers import configured
from tests.unit.drivers.csi.backends import Make
from tonnage.capacity.units import GIB
from tonnage.drivers import loader
from tonnage.drivers.base import Driver


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[CsiPlugin]:
    """A plugin with 10 GiB without segments; tests change its settings."""
    with CsiPlugin(tmp_path / "volumes", Settings(sizes={"": 10 * GIB})) as plugin:
        yield plugin


@pytest.fixture
def make(plugin: CsiPlugin, tmp_path: Path) -> Make:
    """A factory of drivers for the plugin, with additional options and sections."""

    def made(text: str = "", sections: str = "", backend: str = "host@csi", state: str = "state.db") -> Driver:
        conf = configured.conf(
            tmp_path,
            f"[csi]\nvolume_driver = csi\ncsi_endpoint = {plugin.endpoint}\ncsi_state_file = {tmp_path / state}\n"
            f"csi_look_timeout = 60\n{text}\n{sections}",
        )
        driver = loader.load(backend, "csi", conf)
        driver.check()
        return driver

    return made
