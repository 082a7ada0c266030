# SPDX-License-Identifier: Apache-2.0
"""The driver of the plug-in author's guide keeps the contract."""

import functools
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.unit.drivers import configured
from tonnage.drivers import contract
from tonnage.drivers import loader

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "tonnage-folder-driver" / "tonnage_folder_driver.py"


def documented() -> Any:
    spec = importlib.util.spec_from_file_location("tonnage_folder_driver", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FolderDriver


class TestFolderDriver(contract.DriverContract):
    @pytest.fixture
    def make_driver(self, tmp_path: Path) -> contract.MakeDriver:
        conf = configured.conf(
            tmp_path,
            f"""
            [mine]
            volume_driver = folder
            folder_path = {tmp_path / "volumes"}
            folder_size_gb = 4
            reserved_percentage = 25
            max_over_subscription_ratio = 1.5
            """,
        )
        return functools.partial(loader.build, documented(), "host@mine", "mine", conf)
