# SPDX-License-Identifier: Apache-2.0
"""Volumes that are on the storage already and are taken over. What they have is learned from the agent."""

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors, request
from tonnage.capacity.reports import validation
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import MAX_SIZE_GB
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.claims import bookings, pool_counters, request_keys
from tonnage.ledger.inventory import listings

#: Where the answer of a request, as it is kept, names the claim.
_CLAIM = "claim_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """The row of a volume that is taken over from a pool ``host@backend#pool``.

    ``listed_gb`` is its size by the last listing, see :func:`listed_gb`: it counts until the agent has told the real
    one.
    """

    id: str
    pool: str
    project_id: str
    user_id: str = ""
    name: str | None = None
    description: str | None = None
    volume_type: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    listed_gb: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manageable:
    """Something on the storage that no volume of Tonnage is, in a pool ``host@backend#pool``."""

    pool: str
    reference: str
    size_gb: int


def begin(session: orm.Session, request_id: str, volume: TakenOver, reference: str) -> str:
    """Enter a volume that is about to be taken over, and return the claim that records it.

    It is thin or thick as a new volume of its type would be there. The same request delivered again returns the same.
    Raises :class:`~tonnage.capacity.errors.NotFound` for an unknown pool or volume type, and
    :class:`~tonnage.capacity.errors.Conflict` for a reference to what the ledger has in that pool or is about to have:
    that would be taken away from another volume.
    """
    pool = session.scalar(sa.select(models.Pool).where(models.Pool.name == volume.pool, models.Pool.present))
    if pool is None:
        raise errors.NotFound(f"pool {volume.pool} could not be found: name it as host@backend#pool")
    kind = None if volume.volume_type is None else volume_types.find(session, volume.volume_type)
    locked = pool_counters.lock(session, [pool.id])
    claim = models.Claim
    if known := request_keys.find(session, [request_id]).get(request_id):
        known.require(volume.id, bookings.MANAGE)
        return str(known.answer[_CLAIM])
    if session.get(models.Volume, volume.id) is not None:
        raise errors.Conflict(f"volume {volume.id} is there already")
    held = sa.exists().where(
        claim.volume_id == reference, claim.pool_id == pool.id, claim.state != pool_counters.RELEASED
    )
    if session.scalar(sa.select(held)):
        raise errors.Conflict(f"{reference} in {volume.pool} is a volume of Tonnage: it is managed already")
    # Once that has ended, nothing goes by this name any more, unless something new does.
    taken_over = sa.select(claim.volume_id).where(
        claim.reference == reference, claim.pool_id == pool.id, claim.state == pool_counters.PENDING
    )
    if other := session.scalar(taken_over):
        raise errors.Conflict(f"{reference} in {volume.pool} is about to become volume {other}: wait until it has")
    provisioning = _provisioning(pool, kind)
    session.add(
        models.Volume(
            id=volume.id,
            name=volume.name,
            description=volume.description,
            project_id=volume.project_id,
            user_id=volume.user_id,
            size_gb=0,
            status="creating",
            volume_type_id=None if kind is None else kind.id,
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
        volume_id=volume.id,
        backend_id=locked.backends[pool.id],
        pool_id=pool.id,
        verb=bookings.MANAGE,
        state=pool_counters.PENDING,
        size_gb=0,
        physical_gb=0,
        target_size_gb=min(volume.listed_gb, MAX_SIZE_GB),
        provisioning=provisioning,
        contained=True,
        reference=reference,
        request_id=request_id,
    )
    session.add(order)
    request_keys.keep(session, [request_keys.Key(request_id, volume.id, bookings.MANAGE, {_CLAIM: order.id})])
    return order.id


def listed_gb(session: orm.Session, pool: str, reference: str) -> int:
    """Return the size of what is on the storage, by its last listing, in whole GiB; 0 if that did not show it."""
    found = models.Discrepancy
    size = session.scalar(
        sa.select(found.listed_gb)
        .join(models.Pool, models.Pool.id == found.pool_id)
        .where(models.Pool.name == pool, found.volume_id == reference, found.kind.in_(listings.EXTERNAL))
    )
    return 0 if size is None else math.ceil(size - 1e-9)


def manageable(session: orm.Session, place: str) -> list[Manageable]:
    """Return what there is to be taken over in a pool ``host@backend#pool`` or a backend, by its last listing."""
    found, pool = models.Discrepancy, models.Pool
    rows = session.execute(
        sa.select(pool.name, found.volume_id, found.listed_gb)
        .join(pool, pool.id == found.pool_id)
        .join(models.Backend, models.Backend.id == pool.backend_id)
        .where(found.kind == listings.ORPHAN, sa.or_(pool.name == place, models.Backend.name == place))
    )
    return [Manageable(pool=row[0], reference=row[1], size_gb=math.ceil(row[2] - 1e-9)) for row in rows]


def _provisioning(pool: models.Pool, kind: models.VolumeType | None) -> str:
    figures = validation.validate([pool.stats]).pools
    asked = request.asked_provisioning({} if kind is None else kind.extra_specs)
    thin = bool(figures) and bool(request.judged_thin(figures[0].thin, figures[0].thick, asked))
    return (Provisioning.THIN if thin else Provisioning.THICK).value
