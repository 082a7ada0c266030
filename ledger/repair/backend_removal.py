# SPDX-License-Identifier: Apache-2.0
"""Removal of backends that never come back, on an operator's order."""

import uuid
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.claims import operation_outcomes
from tonnage.ledger.inventory import backends
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.models import claim_verbs


@dataclass(frozen=True, slots=True)
class Removed:
    """The pools that were removed with a backend, and the volumes that were on them, which are now in error."""

    pools: tuple[str, ...]
    volumes: tuple[str, ...]


def remove_backend(session: orm.Session, name: str, down_time: float) -> Removed:
    """Remove a backend with its pools and claims. Its volumes stay, in error, with the reason.

    Schedulers drop it from their caches when they next read the rows. If its agent returns, it starts as a new backend,
    and the volumes on its storage are orphans. Raises :class:`~tonnage.capacity.errors.NotFound`, and
    :class:`~tonnage.capacity.errors.Conflict` for a backend that has reported within the last ``down_time`` seconds.
    """
    row = backends.find(session, name)
    if row is None:
        raise errors.NotFound(f"backend {name} could not be found")
    if row.silence is not None and row.silence <= down_time:
        raise errors.Conflict(
            f"backend {name} reported {row.silence:.0f} s ago: stop its agent first, and wait until it is down "
            f"(service_down_time = {down_time:g} s); to move its volumes elsewhere, drain it"
        )
    pool, volume, claim = models.Pool, models.Volume, models.Claim
    pools = dict(session.execute(sa.select(pool.id, pool.name).where(pool.backend_id == row.id)).all())
    if pools:
        locked = pool_counters.lock(session, list(pools))
    else:
        session.execute(sa.select(models.Backend.id).where(models.Backend.id == row.id).with_for_update()).all()
    pool_query = sa.select(pool.id).where(pool.backend_id == row.id)
    volumes = session.scalars(
        sa.select(volume).where(volume.pool_id.in_(pool_query)).order_by(volume.id).with_for_update()
    )
    lost_ids = []
    for lost_volume in volumes:
        lost_ids.append(lost_volume.id)
        reason = f"an operator has removed backend {name}, with this volume in pool {pools[lost_volume.pool_id or 0]}"
        lost_volume.pool_id, lost_volume.provisioning = None, None
        lost_volume.status, lost_volume.status_reason = "error", reason
        session.add(
            models.Message(
                id=str(uuid.uuid4()),
                project_id=lost_volume.project_id,
                request_id=lost_volume.request_id,
                resource_id=lost_volume.id,
                event="volume_lost",
                text=reason,
            )
        )
    # Volumes that were migrating to this backend stay in their source pools.
    moving = sa.select(claim.volume_id).where(
        claim.backend_id == row.id, claim.verb == claim_verbs.MIGRATE, claim.state == pool_counters.PENDING
    )
    for migrating_volume in session.scalars(
        sa.select(volume)
        .where(volume.id.in_(moving), volume.status.in_(operation_outcomes.MOVING))
        .order_by(volume.id)
        .with_for_update()
    ):
        migrating_volume.status, migrating_volume.migration_status = "available", "error"
    session.flush()
    for statement in (
        sa.delete(models.Finding).where(models.Finding.backend_id == row.id),
        sa.delete(models.Discrepancy).where(models.Discrepancy.pool_id.in_(pool_query)),
        sa.delete(claim).where(claim.backend_id == row.id),
        sa.delete(pool).where(pool.backend_id == row.id),
        sa.delete(models.Backend).where(models.Backend.id == row.id),
    ):
        session.execute(statement.execution_options(synchronize_session=False))
    if pools:
        pool_counters.recount_shared(session, locked.shared)
    return Removed(tuple(sorted(pools.values())), tuple(lost_ids))
