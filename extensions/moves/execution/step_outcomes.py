# SPDX-License-Identifier: Apache-2.0
"""The outcomes of steps, as the ledger has them.

A step is an ordinary migration with a request id of its own. So its row tells only that it has begun; its request key,
its claim and its volume tell the rest, and any scheduler can look at them.
"""

import datetime
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.extensions.moves.records import tables
from tonnage.extensions.moves.records.tables import MoveStepRow
from tonnage.ledger import models
from tonnage.ledger.claims import request_keys
from tonnage.ledger.db import dialects
from tonnage.ledger.locks import pool_counters
from tonnage.rpc.messages import Answer, MigrateVolume
from tonnage.scheduler.requests import placement_requests
from tonnage.scheduler.requests.placement_requests import Move

#: Seconds after the end of a step from which on its room is no longer waited for: an agent is away.
_LONGEST_SETTLEMENT = 60.0


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The end of a step: its state, and the reason if the volume was not moved."""

    state: str
    message: str | None = None


#: A step whose request has not been decided.
UNDECIDED = StepOutcome("undecided")
#: A step whose volume is being copied.
UNDER_WAY = StepOutcome(tables.MOVING)


def move_of(step: MoveStepRow) -> Move:
    """Return the request of a step: the same whenever it is made, so it takes effect once."""
    request_id = f"move-{step.plan_id}-{step.number}"
    message = MigrateVolume(request_id=request_id, volume_id=step.volume_id, destination=step.target)
    return Move(message, keeps_affinity=True)


def of_answer(answer: Answer) -> StepOutcome:
    """Return the outcome of a step by the answer to its request."""
    return UNDER_WAY if answer.refusal is None else StepOutcome(tables.SKIPPED, answer.refusal.message)


def read(session: orm.Session, steps: Sequence[MoveStepRow]) -> dict[int, StepOutcome]:
    """Return the outcomes of steps of one plan that are moving, by their numbers."""
    moves = {step.number: move_of(step) for step in steps}
    keys, pending = {}, set()
    for chunk in dialects.in_chunks(steps):
        ids = {moves[step.number].message.request_id: step.volume_id for step in chunk}
        keys.update(request_keys.find(session, dict.fromkeys(ids)))
        pending |= set(
            session.scalars(
                sa.select(models.Claim.request_id).where(
                    models.Claim.volume_id.in_(ids.values()), models.Claim.state == pool_counters.PENDING
                )
            )
        )
    # After the claims: a claim that has ended by then shows in its volume.
    volumes = _volumes(session, [step.volume_id for step in steps])
    outcomes = {}
    for step in steps:
        move = moves[step.number]
        key = keys.get(move.message.request_id)
        if key is None:
            outcomes[step.number] = UNDECIDED
            continue
        try:
            outcome = of_answer(placement_requests.kept_answer(move, key))  # type: ignore[arg-type]
        except errors.TonnageError as error:
            outcome = StepOutcome(tables.SKIPPED, error.message)
        if outcome is UNDER_WAY and move.message.request_id not in pending:
            outcome = _ended(step, *volumes.get(step.volume_id, (None, None)))
        outcomes[step.number] = outcome
    return outcomes


def _ended(step: MoveStepRow, pool: str | None, reason: str | None) -> StepOutcome:
    if pool == step.target:
        return StepOutcome(tables.MOVED)
    if pool == step.source:
        return StepOutcome(tables.STEP_FAILED, reason or "the copy failed")
    place = "has been deleted" if pool is None else f"is in {pool}"
    return StepOutcome(tables.SKIPPED, f"the volume {place} meanwhile")


def unsettled(session: orm.Session, plan_id: str, generation: int) -> set[str]:
    """Return the volumes of ended steps of a generation whose room is not free yet, or not in the figures.

    The old copy is still there, or no report of one of the backends has begun since the end. A step that ended long ago
    no longer counts.
    """
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    recent = session.scalars(
        sa.select(MoveStepRow.volume_id).where(
            MoveStepRow.plan_id == plan_id,
            MoveStepRow.generation == generation,
            MoveStepRow.ended_at > now - datetime.timedelta(seconds=_LONGEST_SETTLEMENT),
        )
    ).all()
    claim = models.Claim
    volume_ids: set[str] = set()
    for chunk in dialects.in_chunks(sorted(set(recent))):
        volume_ids |= set(
            session.scalars(
                sa.select(claim.volume_id).where(
                    claim.volume_id.in_(chunk),
                    sa.or_(claim.state == pool_counters.PENDING, claim.contained.is_(False)),
                )
            )
        )
    return volume_ids


def ended_steps(session: orm.Session, plan_id: str, generation: int, volume_ids: Collection[str]) -> list[MoveStepRow]:
    """Return the steps of these volumes that have ended, in their order."""
    row = MoveStepRow
    rows: list[MoveStepRow] = []
    for chunk in dialects.in_chunks(sorted(volume_ids)):
        statement = sa.select(row).where(
            row.plan_id == plan_id,
            row.generation == generation,
            row.volume_id.in_(chunk),
            row.ended_at.is_not(None),
        )
        rows += session.scalars(statement)
    return sorted(rows, key=lambda step: step.number)


def _volumes(session: orm.Session, ids: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
    """Return the pool of each volume, and the reason of its last failure."""
    volume, pool = models.Volume, models.Pool
    rows: dict[str, tuple[str | None, str | None]] = {}
    for chunk in dialects.in_chunks(ids):
        statement = (
            sa.select(volume.id, pool.name, volume.status_reason)
            .outerjoin(pool, pool.id == volume.pool_id)
            .where(volume.id.in_(chunk))
        )
        rows.update({row.id: (row.name, row.status_reason) for row in session.execute(statement)})
    return rows
