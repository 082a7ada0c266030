# SPDX-License-Identifier: Apache-2.0
"""Deletions: a volume on its way out. Its capacity comes back when the agent has confirmed."""

import uuid
from dataclasses import dataclass

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import bookings
from tonnage.ledger import counters
from tonnage.ledger import endings
from tonnage.ledger import models

#: States in which a volume may be deleted.
DELETABLE = ("available", "error", "error_deleting", "error_extending")


@dataclass(frozen=True, slots=True)
class Deletion:
    """The claim that records a delete under way; None where the volume is on no pool and is gone already."""

    claim_id: str | None


def begin(session: orm.Session, volume_id: str, request_id: str) -> Deletion:
    """Mark a volume as being deleted. Asking again for one that is answers the same.

    Raises :class:`~tonnage.capacity.errors.NotFound` and, for a volume in use by another operation,
    :class:`~tonnage.capacity.errors.Conflict`.
    """
    volume = session.get(models.Volume, volume_id)
    if volume is not None and volume.pool_id is not None:
        # The one lock order: backends, to which the claim's row refers, and pools before volumes.
        counters.lock_backends(session, [volume.pool_id])
        counters.lock_pools(session, [volume.pool_id])
    # Read again under the locks: meanwhile another scheduler may have heard that it is gone.
    volume = session.get(models.Volume, volume_id, populate_existing=True, with_for_update=True)
    if volume is None:
        raise errors.NotFound(f"volume {volume_id} could not be found")
    if volume.status == "deleting":
        return Deletion(None)
    if volume.status not in DELETABLE:
        raise errors.Conflict(
            f"volume {volume_id} is {volume.status}: only a volume that is {', '.join(DELETABLE)} can be deleted"
        )
    if volume.pool_id is None:
        endings.forget_volume(session, volume)
        return Deletion(None)
    pool = session.get_one(models.Pool, volume.pool_id)
    claim = models.Claim(
        id=str(uuid.uuid4()),
        volume_id=volume.id,
        backend_id=pool.backend_id,
        pool_id=pool.id,
        verb=bookings.DELETE,
        state=counters.PENDING,
        size_gb=0,
        physical_gb=0,
        target_size_gb=volume.size_gb,
        provisioning=volume.provisioning or "",
        request_id=request_id,
    )
    session.add(claim)
    volume.status = "deleting"
    volume.status_reason = None
    return Deletion(claim.id)
