# SPDX-License-Identifier: Apache-2.0
"""The operations for which Cinder reserves quota, and the rows whose change ends their reservations.

Cinder tells a quota driver the amounts and the project of a reservation, not the operation. The operation is taken from
the function that reserves: these functions are the same in all releases in which Tonnage runs. The identifier of a
reservation, of which Cinder asks only that it fits in 36 characters, names the operation and the row:

* 32 digits: those of the row's id, or random ones if there is no row yet;
* the code of the operation, a letter that is no hexadecimal digit, so no identifier of Cinder's own driver has it here;
* three random letters or digits: two requests may want to change the same row, and only one of them succeeds.
"""

import secrets
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

#: The position of the operation's code in an identifier, from 0, and the length of an identifier.
CODE_AT, LENGTH = 32, 36

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that reserves quota. ``makes`` is the table that gets a row, for operations that make one."""

    code: str
    name: str
    makes: str | None = None


CREATE_VOLUME = Operation("v", "create volume", "volumes")
CACHE_IMAGE = Operation("l", "cache image", "volumes")
CREATE_SNAPSHOT = Operation("p", "create snapshot", "snapshots")
CREATE_BACKUP = Operation("k", "create backup", "backups")
CREATE_GROUP = Operation("g", "create group", "groups")
EXTEND = Operation("x", "extend")
RETYPE = Operation("t", "retype")
MANAGE_VOLUME = Operation("m", "manage volume")
MANAGE_SNAPSHOT = Operation("s", "manage snapshot")
TRANSFER = Operation("w", "accept transfer")
IMPORT_BACKUP = Operation("i", "import backup")
OTHER = Operation("o", "other")

OPERATIONS = {
    operation.code: operation
    for operation in (
        CREATE_VOLUME,
        CACHE_IMAGE,
        CREATE_SNAPSHOT,
        CREATE_BACKUP,
        CREATE_GROUP,
        EXTEND,
        RETYPE,
        MANAGE_VOLUME,
        MANAGE_SNAPSHOT,
        TRANSFER,
        IMPORT_BACKUP,
        OTHER,
    )
}

#: The functions of Cinder that reserve amounts above zero, or that such a function runs in: the operation, and the
#: variable with the row that the operation changes, or with the volume of a snapshot.
CALLERS: Mapping[tuple[str, str], tuple[Operation, str | None]] = {
    ("cinder.volume.flows.api.create_volume", "QuotaReserveTask.execute"): (CREATE_VOLUME, None),
    ("cinder.volume.manager", "VolumeManager.manage_existing"): (MANAGE_VOLUME, "volume"),
    ("cinder.volume.manager", "VolumeManager._clone_image_volume"): (CACHE_IMAGE, None),
    ("cinder.volume.api", "API._extend"): (EXTEND, "volume"),
    ("cinder.quota_utils", "get_volume_type_reservation"): (RETYPE, "volume"),
    ("cinder.volume.api", "API.create_snapshot_in_db"): (CREATE_SNAPSHOT, "volume"),
    ("cinder.volume.api", "API._create_snapshots_in_db_reserve"): (CREATE_SNAPSHOT, None),
    ("cinder.volume.flows.manager.manage_existing_snapshot", "QuotaReserveTask.execute"): (
        MANAGE_SNAPSHOT,
        "snapshot_ref",
    ),
    ("cinder.transfer.api", "API.accept"): (TRANSFER, "volume_id"),
    ("cinder.backup.api", "API.create"): (CREATE_BACKUP, None),
    ("cinder.backup.api", "API._get_import_backup"): (IMPORT_BACKUP, "backup_record"),
    ("cinder.group.api", "API.create"): (CREATE_GROUP, None),
    ("cinder.group.api", "API.create_from_src"): (CREATE_GROUP, None),
}


@dataclass(frozen=True, slots=True)
class Booking:
    """The operation for which quota is reserved, and the id of the row that it changes, if there is one.

    That of a new snapshot has the id of its volume.
    """

    operation: Operation
    row_id: str | None = None

    def identifier(self) -> str:
        """Return a new identifier for a reservation."""
        has_row = self.row_id is not None and self.operation.makes is None
        row = uuid.UUID(self.row_id) if has_row else uuid.uuid4()
        return f"{row.hex}{self.operation.code}{''.join(secrets.choice(_ALPHABET) for _ in range(3))}"


def of_identifier(identifier: str) -> Booking | None:
    """Return the operation and the row in an identifier, None for one of Cinder's own driver."""
    operation = OPERATIONS.get(identifier[CODE_AT : CODE_AT + 1])
    if operation is None or len(identifier) != LENGTH:
        return None
    is_bound = operation.makes is None and operation is not OTHER
    return Booking(operation, str(uuid.UUID(identifier[:CODE_AT])) if is_bound else None)


def of_frames(frame: FrameType | None = None) -> Booking:
    """Return the operation in whose function of Cinder the caller runs."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        caller = CALLERS.get((frame.f_globals.get("__name__", ""), frame.f_code.co_qualname))
        if caller is not None and not _corrects_a_size(frame):
            operation, variable = caller
            if variable is None:
                return Booking(operation)
            row_id = _id(frame.f_locals.get(variable))
            return Booking(OTHER) if row_id is None else Booking(operation, row_id)
        frame = frame.f_back
    return Booking(OTHER)


def _corrects_a_size(frame: FrameType) -> bool:
    """Return whether a task reserves for a volume that has its row already; the function around it names the row."""
    options = frame.f_locals.get("optional_args")
    return (
        isinstance(options, dict)
        and bool(options.get("update_size"))
        and frame.f_globals.get("__name__") == "cinder.volume.flows.api.create_volume"
    )


def _id(row: Any) -> str | None:
    """Return the id of a row in the form of a UUID, None if it has another one."""
    row_id = row if isinstance(row, str) else row.get("id") if isinstance(row, dict) else getattr(row, "id", None)
    try:
        return str(uuid.UUID(str(row_id)))
    except ValueError:
        return None
