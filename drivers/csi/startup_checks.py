# SPDX-License-Identifier: Apache-2.0
"""What has to be so before a backend starts: the plugin can do what is needed, and the state file is this backend's.

All functions raise :class:`~tonnage.capacity.errors.ConfigurationError` where it is not.
"""

import sqlite3
from pathlib import Path

from tonnage.capacity import errors
from tonnage.drivers.csi.class_pools import Places
from tonnage.drivers.csi.connection import CallFailed, Deadline
from tonnage.drivers.csi.plugin import Abilities, BadAnswer, Plugin
from tonnage.drivers.csi.volume_records import Records
from tonnage.drivers.filesystem import ownership


def asked(plugin: Plugin, places: Places, section: str, endpoint: str, deadline: Deadline) -> Abilities:
    """Return what the plugin can do; ``places`` learn where its node is, and are known then."""
    option = f"[{section}] csi_endpoint = {endpoint}"
    try:
        if not plugin.wait(deadline):
            raise errors.ConfigurationError(f"{option}: the plugin says that it is not ready yet; try again later")
        abilities = plugin.abilities(deadline)
        if places.asks_node and abilities.topology:
            places.be_at(plugin.own_segment(deadline))
    except (CallFailed, BadAnswer) as error:
        raise errors.ConfigurationError(
            f"{option}: {error}; see that the plugin runs and that this user may use its socket"
        ) from error
    if not abilities.capacity:
        raise errors.ConfigurationError(
            f"{option}: {abilities.name} does not tell its capacity (GET_CAPACITY), so nothing can be placed there"
        )
    if places.needs_topology and not abilities.topology:
        raise errors.ConfigurationError(
            f"[{section}] csi_topology = labels: {abilities.name} knows of no segments "
            "(VOLUME_ACCESSIBILITY_CONSTRAINTS); use none or node"
        )
    try:
        places.now()
    except errors.DriverError as error:
        raise errors.ConfigurationError(f"[{section}] {error.message}") from error
    return abilities


def own_file(records: Records, file: Path, backend: str, section: str) -> None:
    """See that the file can be written and is nobody else's: two would make volumes that the other deletes."""
    option = f"[{section}] csi_state_file = {file}"
    mark = file.with_name(f"{file.name}.owner")
    try:
        owner = ownership.claim(backend, mark)
        records.check()
    except (OSError, sqlite3.Error) as error:
        raise errors.ConfigurationError(f"{option}: {error}; name a file that can be written") from error
    if owner != backend:
        raise errors.ConfigurationError(
            f"{option}: it belongs to backend {owner}, and {backend} needs one of its own; if that backend is gone for "
            f"good or was renamed, remove {mark}"
        )
