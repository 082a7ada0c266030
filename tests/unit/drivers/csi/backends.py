# SPDX-License-Identifier: Apache-2.0
"""Backends with the CSI driver: their volumes, their figures, and another client of their plugin."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from tests.servers.csi_plugin import CsiPlugin
from tests.unit.drivers import configured
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.csi import plugin_settings
from tonnage.drivers.csi.cluster_segments import Segment
from tonnage.drivers.csi.connection import Connection, Deadline
from tonnage.drivers.csi.plugin import Plugin
from tonnage.drivers.csi.storage_class_config import VolumeSettings
from tonnage.drivers.options import BACKEND_OPTS, Section

Make: TypeAlias = Callable[..., Driver]


def section(folder: Path, text: str) -> Section:
    """Return the section ``[csi]`` of a backend; ``text`` may go on with sections of its classes."""
    return Section(configured.conf(folder, f"[csi]\n{text}\n"), "csi", [*BACKEND_OPTS, *plugin_settings.OPTIONS])


def volume(name: str = "v", size_gb: int = 1, pool: str = "default") -> Volume:
    return Volume(id=name, pool=pool, size_gb=size_gb, provisioning=Provisioning.THICK)


def figures(driver: Driver) -> dict[str, tuple[float, float, float]]:
    """Return the total, free and provisioned capacity of each pool."""
    return {
        pool["pool_name"]: (pool["total_capacity_gb"], pool["free_capacity_gb"], pool["provisioned_capacity_gb"])
        for pool in driver.report()
    }


def listed(driver: Driver) -> dict[str, tuple[str, float]]:
    return {stored.id: (stored.pool, stored.size_gb) for stored in driver.list_volumes()}


def direct_plugin(plugin: CsiPlugin) -> Plugin:
    """Return a connection of another client to the plugin."""
    return Plugin(Connection(plugin.endpoint))


def create_foreign(plugin: CsiPlugin, size: int = GIB, name: str = "theirs", segment: Segment | None = None) -> str:
    """Create a volume as another program; return the plugin's id."""
    return direct_plugin(plugin).create(name, size, VolumeSettings(), segment, Deadline(60)).id


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
