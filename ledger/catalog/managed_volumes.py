# SPDX-License-Identifier: Apache-2.0
"""The managing of volumes that exist on the storage already. The agent reports their size and provisioning."""

import math
import uuid
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors, request
from tonnage.capacity.reports import validation
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import MAX_SIZE_GB
from tonnage.capacity.volume_request import ManageVolume
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.claims import request_keys
from tonnage.ledger.inventory import listings
from tonnage.ledger.locks import pool_counters, pool_locks
from tonnage.ledger.models import claim_verbs

#: The key of the claim's id in the stored answer of a request.
_CLAIM = "claim_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manageable:
    """A copy on the storage that is no volume of Tonnage, in a pool ``host@backend#pool``."""

    pool: str
    reference: str
    size_gb: int


def begin(session: orm.Session, volume: ManageVolume, listed_gb: int = 0) -> str:
    """Insert the row of a volume that is managed from now on, and return the claim that records the operation.

    It is thin or thick as a new volume of its type would be in that pool. ``listed_gb`` is its size in the last
    listing, see :func:`find_listed_gb`: it counts until the agent has reported the real size. The same request
    delivered again returns the same claim.

    Raises :class:`~tonnage.capacity.errors.NotFound` for an unknown pool or volume type, and
    :class:`~tonnage.capacity.errors.Conflict` for a reference that is, or is about to become, a volume of the ledger in
    that pool: that volume would lose its copy. Raises :class:`~tonnage.capacity.errors.Unavailable` for a request that
    is too old.
    """
    request_id, reference = volume.request_id, volume.reference
    pool = session.scalar(sa.select(models.Pool).where(models.Pool.name == volume.pool, models.Pool.present))
    if pool is None:
        raise errors.NotFound(f"pool {volume.pool} could not be found: name it as host@backend#pool")
    volume_type = None if volume.volume_type is None else volume_types.find(session, volume.volume_type)
    locked = pool_locks.lock(session, [pool.id])
    claim = models.Claim
    if key := request_keys.find(session, {request_id: volume.asked_at}).get(request_id):
        key.require(volume.volume_id, claim_verbs.MANAGE)
        return str(key.answer[_CLAIM])
    if session.get(models.Volume, volume.volume_id) is not None:
        raise errors.Conflict(f"volume {volume.volume_id} is there already")
    in_use = sa.exists().where(
        claim.volume_id == reference, claim.pool_id == pool.id, claim.state != pool_counters.RELEASED
    )
    if session.scalar(sa.select(in_use)):
        raise errors.Conflict(f"{reference} in {volume.pool} is a volume of Tonnage: it is managed already")
    # After a manage operation the copy has a new name, so the old name is free again, unless a new copy has it.
    being_managed = sa.select(claim.volume_id).where(
        claim.reference == reference, claim.pool_id == pool.id, claim.state == pool_counters.PENDING
    )
    if other_volume := session.scalar(being_managed):
        raise errors.Conflict(
            f"{reference} in {volume.pool} is about to become volume {other_volume}: wait until it has"
        )
    provisioning = _provisioning(pool, volume_type)
    session.add(
        models.Volume(
            id=volume.volume_id,
            name=volume.name,
            description=volume.description,
            project_id=volume.project_id,
            user_id=volume.user_id,
            size_gb=0,
            status="creating",
            volume_type_id=None if volume_type is None else volume_type.id,
            availability_zone=session.get_one(models.Backend, pool.backend_id).availability_zone,
            pool_id=pool.id,
            provisioning=provisioning,
            user_metadata=dict(volume.metadata),
            hints={},
            attempted_pools=[],
            request_id=request_id,
        )
    )
    order = claim(
        id=str(uuid.uuid4()),
        volume_id=volume.volume_id,
        backend_id=locked.backends[pool.id],
        pool_id=pool.id,
        verb=claim_verbs.MANAGE,
        state=pool_counters.PENDING,
        size_gb=0,
        physical_gb=0,
        target_size_gb=min(listed_gb, MAX_SIZE_GB),
        provisioning=provisioning,
        contained=True,
        reference=reference,
        request_id=request_id,
    )
    session.add(order)
    request_keys.insert(
        session, [request_keys.Key(request_id, volume.volume_id, claim_verbs.MANAGE, {_CLAIM: order.id})]
    )
    return order.id


def find_listed_gb(session: orm.Session, pool: str, reference: str) -> int:
    """Return the size of an unmanaged copy in the last listing, in whole GiB; 0 if the listing did not show it."""
    discrepancy = models.Discrepancy
    size = session.scalar(
        sa.select(discrepancy.listed_gb)
        .join(models.Pool, models.Pool.id == discrepancy.pool_id)
        .where(
            models.Pool.name == pool, discrepancy.volume_id == reference, discrepancy.category.in_(listings.EXTERNAL)
        )
    )
    return 0 if size is None else math.ceil(size - 1e-9)


def manageable(session: orm.Session, name: str) -> list[Manageable]:
    """Return the copies that can be managed in a pool ``host@backend#pool`` or a backend, by its last listing."""
    discrepancy, pool = models.Discrepancy, models.Pool
    rows = session.execute(
        sa.select(pool.name, discrepancy.volume_id, discrepancy.listed_gb)
        .join(pool, pool.id == discrepancy.pool_id)
        .join(models.Backend, models.Backend.id == pool.backend_id)
        .where(discrepancy.category == listings.ORPHAN, sa.or_(pool.name == name, models.Backend.name == name))
    )
    return [Manageable(pool=row[0], reference=row[1], size_gb=math.ceil(row[2] - 1e-9)) for row in rows]


def _provisioning(pool: models.Pool, volume_type: models.VolumeType | None) -> str:
    figures = validation.validate([pool.stats]).pools
    requested_provisioning = request.requested_provisioning({} if volume_type is None else volume_type.extra_specs)
    thin = bool(figures) and bool(request.judged_thin(figures[0].thin, figures[0].thick, requested_provisioning))
    return (Provisioning.THIN if thin else Provisioning.THICK).value
