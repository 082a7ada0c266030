# SPDX-License-Identifier: Apache-2.0
"""Removal of backends, or of single pools, that never come back, on an operator's order."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.claims import operation_outcomes
from tonnage.ledger.inventory import backends, names
from tonnage.ledger.locks import backend_notices, pool_counters, pool_locks
from tonnage.ledger.models import claim_verbs


class StillUp(errors.Conflict):
    """A backend is not down yet, and will be in ``seconds`` unless it reports again."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Removed:
    """The pools that were removed, and the volumes that were on them, which are now in error."""

    pools: tuple[str, ...]
    volumes: tuple[str, ...]


def remove_backend(session: orm.Session, name: str, down_time: float) -> Removed:
    """Remove the backend ``host@backend`` with its pools and claims, or only the pool ``host@backend#pool``.

    The volumes stay, in error, with the reason. Schedulers drop the rows from their caches when they next read them. If
    the agent returns, it starts with a new backend or pool, and the volumes on the storage are orphans. Raises
    :class:`~tonnage.capacity.errors.NotFound`, and :class:`StillUp` for a backend that has reported within the last
    ``down_time`` seconds.
    """
    backend_name, _, pool_name = name.partition("#")
    row = backends.find(session, backend_name)
    if row is None:
        raise names.missing_backend(session, backend_name)
    if row.silence is not None and row.silence <= down_time:
        seconds = down_time - row.silence
        has_ended = row.notice is not None and row.notice.code in backend_notices.ENDED
        raise StillUp(
            f"backend {backend_name} reported {row.silence:.0f} s ago, and is down {seconds:.0f} s from now "
            f"(service_down_time = {down_time:g} s): "
            + ("wait until then" if has_ended else "stop its agent first, and wait; to move its volumes, drain it"),
            seconds,
        )
    pool, claim = models.Pool, models.Claim
    of_order = [pool.backend_id == row.id, *([pool.name == name] if pool_name else [])]
    pool_ids = sa.select(pool.id).where(*of_order)
    pools = dict(session.execute(sa.select(pool.id, pool.name).where(*of_order)).all())
    if pool_name and not pools:
        raise names.missing_pool(session, name)
    if pools:
        locked = pool_locks.lock(session, list(pools))
    else:
        session.execute(sa.select(models.Backend.id).where(models.Backend.id == row.id).with_for_update()).all()
    reason = f"an operator has removed {'pool' if pool_name else 'backend'} {name}, with this volume in pool"
    lost_ids = _give_up_volumes(session, pool_ids, pools, reason)
    _end_moves(session, pool_ids)
    if pool_name:
        allocated = pool_counters.read(session, list(pools))
        pool_counters.add_to_backends(session, {row.id: -sum(counters.allocated for counters in allocated.values())})
    session.flush()
    of_pools = [
        sa.delete(table).where(table.backend_id == row.id, *([table.pool == pool_name] if pool_name else []))
        for table in (models.Finding, models.StorageMark)
    ]
    statements = [
        *of_pools,
        sa.delete(models.Discrepancy).where(models.Discrepancy.pool_id.in_(pool_ids)),
        sa.delete(claim).where(claim.pool_id.in_(pool_ids)),
        sa.delete(pool).where(*of_order),
        *([] if pool_name else [sa.delete(models.Backend).where(models.Backend.id == row.id)]),
    ]
    for statement in statements:
        session.execute(statement.execution_options(synchronize_session=False))
    if pools:
        pool_counters.recount_shared(session, locked.shared)
    return Removed(tuple(sorted(pools.values())), tuple(lost_ids))


def _give_up_volumes(
    session: orm.Session, pool_ids: sa.Select[Any], pool_names: Mapping[int, str], reason: str
) -> list[str]:
    """Put the volumes of the selected pools in error; return their ids. The pool's name is put behind the reason."""
    volume = models.Volume
    volumes = session.scalars(
        sa.select(volume).where(volume.pool_id.in_(pool_ids)).order_by(volume.id).with_for_update()
    ).all()
    for lost_volume in volumes:
        text = f"{reason} {pool_names[lost_volume.pool_id or 0]}"
        lost_volume.pool_id, lost_volume.provisioning = None, None
        lost_volume.status, lost_volume.status_reason = "error", text
        session.add(
            models.Message(
                id=str(uuid.uuid4()),
                project_id=lost_volume.project_id,
                request_id=lost_volume.request_id,
                resource_id=lost_volume.id,
                event="volume_lost",
                text=text,
            )
        )
    return [lost_volume.id for lost_volume in volumes]


def _end_moves(session: orm.Session, pool_ids: sa.Select[Any]) -> None:
    """End the migrations to the selected pools: the volumes stay in their source pools."""
    volume, claim = models.Volume, models.Claim
    moving = sa.select(claim.volume_id).where(
        claim.pool_id.in_(pool_ids), claim.verb == claim_verbs.MIGRATE, claim.state == pool_counters.PENDING
    )
    for migrating_volume in session.scalars(
        sa.select(volume)
        .where(volume.id.in_(moving), volume.status.in_(operation_outcomes.MOVING))
        .order_by(volume.id)
        .with_for_update()
    ):
        migrating_volume.status, migrating_volume.migration_status = "available", "error"
