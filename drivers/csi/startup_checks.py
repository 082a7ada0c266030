# SPDX-License-Identifier: Apache-2.0
"""The checks at the start of a backend: of the plugin's capabilities and of the owner of the state file.

All functions raise :class:`~tonnage.capacity.errors.ConfigurationError` for a check that fails.
"""

import sqlite3
from pathlib import Path

from tonnage.capacity import errors
from tonnage.drivers.csi.class_pools import ClassPools
from tonnage.drivers.csi.connection import CallFailed, Deadline
from tonnage.drivers.csi.plugin import InvalidResponse, Plugin, PluginCapabilities
from tonnage.drivers.csi.volume_records import VolumeRecords
from tonnage.drivers.filesystem import ownership


def check_plugin(
    plugin: Plugin, pools: ClassPools, section: str, endpoint: str, deadline: Deadline
) -> PluginCapabilities:
    """Return the plugin's capabilities.

    Set the segment of the plugin's node in ``pools``, and verify that the pools are known.
    """
    option = f"[{section}] csi_endpoint = {endpoint}"
    try:
        if not plugin.wait_until_ready(deadline):
            raise errors.ConfigurationError(f"{option}: the plugin says that it is not ready yet; try again later")
        capabilities = plugin.capabilities(deadline)
        if pools.per_node and capabilities.supports_topology:
            pools.set_node_segment(plugin.node_segment(deadline))
    except (CallFailed, InvalidResponse) as error:
        raise errors.ConfigurationError(
            f"{option}: {error}; see that the plugin runs and that this user may use its socket"
        ) from error
    if not capabilities.reports_capacity:
        raise errors.ConfigurationError(
            f"{option}: {capabilities.name} does not tell its capacity (GET_CAPACITY), so nothing can be placed there"
        )
    if pools.needs_topology and not capabilities.supports_topology:
        raise errors.ConfigurationError(
            f"[{section}] csi_topology = labels: {capabilities.name} knows of no segments "
            "(VOLUME_ACCESSIBILITY_CONSTRAINTS); use none or node"
        )
    try:
        pools.current()
    except errors.DriverError as error:
        raise errors.ConfigurationError(f"[{section}] {error.message}") from error
    return capabilities


def check_state_file(records: VolumeRecords, file: Path, backend: str, section: str) -> None:
    """Verify that the file can be written and belongs to this backend.

    Two backends with one file would create volumes that the other deletes.
    """
    option = f"[{section}] csi_state_file = {file}"
    owner_mark = file.with_name(f"{file.name}.owner")
    try:
        ownership.require_file_of_mark(file, option)
        owner = ownership.claim(backend, owner_mark)
        records.check()
    except (OSError, sqlite3.Error) as error:
        raise errors.ConfigurationError(f"{option}: {error}; name a file that can be written") from error
    if owner != backend:
        raise errors.ConfigurationError(
            f"{option}: it belongs to backend {owner}, and {backend} needs one of its own; if that backend is gone for "
            f"good or was renamed, remove {owner_mark}"
        )
