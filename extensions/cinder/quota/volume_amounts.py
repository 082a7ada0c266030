# SPDX-License-Identifier: Apache-2.0
"""Whether amounts of a volume type are those of the volume as it is now.

cinder-api takes the type and the size of a volume from a row that it has read at the start of a request. Another
request may have changed the volume since: then the amounts would be compared with the limits of another type.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from tonnage.extensions.cinder.quota import quota_operations as operations
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota.quota_operations import Booking
from tonnage.extensions.cinder.quota.quota_usage import Resource

#: The operations whose amounts cinder-api takes from a volume's row.
_OF_VOLUMES = (operations.EXTEND, operations.CREATE_SNAPSHOT, operations.RETYPE)

_V, _S = tables.VOLUMES.c, tables.SNAPSHOTS.c


class VolumeChanged(Exception):
    """A volume is not as it was when the request that reserves for it has read it."""

    def __init__(self, volume_id: str) -> None:
        super().__init__(
            f"volume {volume_id} has changed its type, its size or its snapshots during the request; send it again"
        )


def check(
    connection: sa.Connection, booking: Booking, deltas: Mapping[Resource, int], snapshots_use_gigabytes: bool
) -> None:
    """Raise :class:`VolumeChanged` if amounts of a type are not those of the volume; others hold for any type."""
    typed = {resource: delta for resource, delta in deltas.items() if resource.volume_type_id is not None}
    if not typed or booking.row_id is None or booking.operation not in _OF_VOLUMES:
        return
    volume = connection.execute(
        sa.select(_V.volume_type_id, _V.status, _V.size).where(_V.id == booking.row_id, _V.deleted == sa.false())
    ).one_or_none()
    if volume is None:
        return
    if booking.operation is operations.RETYPE:
        numbers = {resource.part: delta for resource, delta in typed.items()}
        is_current = _has(connection, booking.row_id, volume.size, numbers, snapshots_use_gigabytes)
    else:
        is_current = {resource.volume_type_id for resource in typed} == {volume.volume_type_id}
        is_current = is_current and (booking.operation is operations.EXTEND or volume.status != "retyping")
    if not is_current:
        raise VolumeChanged(booking.row_id)


def _has(
    connection: sa.Connection, volume_id: str, size: int, numbers: Mapping[str, int], snapshots_use_gigabytes: bool
) -> bool:
    """Return whether these are the numbers that a retype adds to the new type, with the snapshots of the volume."""
    number, total = connection.execute(
        sa.select(sa.func.count(_S.id), sa.func.sum(_S.volume_size)).where(
            _S.volume_id == volume_id, _S.deleted == sa.false()
        )
    ).one()
    gigabytes = size + (int(total or 0) if snapshots_use_gigabytes else 0)
    return numbers.get("gigabytes", gigabytes) == gigabytes and numbers.get("snapshots", 0) == number
