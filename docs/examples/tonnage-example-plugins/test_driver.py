# SPDX-License-Identifier: Apache-2.0
import functools

import pytest
from oslo_config import cfg
from tonnage_example.drivers import FolderDriver

from tonnage.drivers import contract, loader


class TestFolderDriver(contract.DriverContract):
    @pytest.fixture
    def make_driver(self, tmp_path):
        file = tmp_path / "tonnage.conf"
        file.write_text(f"[mine]\nvolume_driver = folder\nfolder_path = {tmp_path}\nfolder_size_gb = 4\n")
        conf = cfg.ConfigOpts()
        conf(["--config-file", str(file)])
        return functools.partial(loader.build, FolderDriver, "host@mine", "mine", conf)
