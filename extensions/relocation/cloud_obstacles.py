# SPDX-License-Identifier: Apache-2.0
"""The reasons why Cinder does not move a volume, as far as they are known before it is asked."""

from tonnage.extensions.relocation.cinder_client import Volume
from tonnage.extensions.relocation.plan_choices import Choices

#: The prefix of the migration status of the copy that Cinder makes for a volume that moves.
_COPY = "target:"

#: Migration statuses of a volume that does not move, see ``AVAILABLE_MIGRATION_STATUS`` in ``cinder.volume.api``.
_AT_REST = frozenset({None, "", "none", "deleting", "error", "success"})

#: Replication statuses of a volume without a replica.
_NOT_REPLICATED = frozenset({None, "", "disabled", "not-capable"})


def is_copy(volume: Volume) -> bool:
    """Return whether a volume is the copy that Cinder makes for another one that moves."""
    status = volume.migration_status or ""
    return status.startswith(_COPY) or (status == "deleting" and volume.status == "deleting")


def is_moving(volume: Volume) -> bool:
    """Return whether Cinder moves a volume or changes its type now."""
    return volume.migration_status not in _AT_REST or volume.status in ("maintenance", "retyping")


def of(volume: Volume, choices: Choices, *, has_snapshots: bool) -> str | None:
    """Return why Cinder does not move a volume; None if nothing is known that keeps it."""
    if is_moving(volume):
        return f"volume {volume.id} is being moved or changed by Cinder: its migration status is " + (
            f"{volume.migration_status}, its status is {volume.status}"
        )
    if volume.status not in ("available", "in-use"):
        return f"volume {volume.id} is {volume.status}: Cinder moves volumes that are available or in use"
    if has_snapshots:
        return f"volume {volume.id} has snapshots: Cinder moves no volume with snapshots, delete them first"
    if volume.group_id or volume.consistencygroup_id:
        group = volume.group_id or volume.consistencygroup_id
        return f"volume {volume.id} belongs to group {group}: Cinder moves no volume of a group, remove it from there"
    if volume.replication_status not in _NOT_REPLICATED:
        return (
            f"volume {volume.id} is replicated, its replication status is {volume.replication_status}: Cinder moves no "
            "volume with a replica"
        )
    return _of_attachments(volume, choices) if volume.attachments or volume.status == "in-use" else None


def _of_attachments(volume: Volume, choices: Choices) -> str | None:
    """Return why a volume in use does not move. Nova copies it, for servers that run."""
    servers = sorted({attachment.server_id for attachment in volume.attachments if attachment.server_id})
    if len(servers) != len(volume.attachments) or not servers:
        hosts = ", ".join(sorted({attachment.host_name or "a host" for attachment in volume.attachments})) or "a host"
        return (
            f"volume {volume.id} is attached to {hosts} without a server of Nova: Cinder moves a volume in use with "
            "Nova's help alone, detach it"
        )
    if volume.multiattach or len(servers) > 1:
        return f"volume {volume.id} is a multiattach volume in use: Nova copies no such volume, detach it"
    if volume.encrypted:
        return f"volume {volume.id} is encrypted and in use: Nova copies no encrypted volume, detach it"
    if not choices.attached:
        return (
            f"volume {volume.id} is in use by server {servers[0]}: detach it, or let Nova copy it with the option "
            "--attached"
        )
    return None
