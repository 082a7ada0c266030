# SPDX-License-Identifier: Apache-2.0
"""Cinder as the mover of a plan's volumes.

Cinder has no key for requests, so the state of a volume tells whether its move has begun. It was recorded before the
step was marked: as long as the volume has that state, nothing has happened to it. Only the process that marked a step
sends its request, and only for a while; after that any process does, once. Cinder itself accepts a second request for a
volume that moves never.
"""

import datetime
import logging
from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.extensions.moves.execution import step_outcomes
from tonnage.extensions.moves.execution.step_outcomes import StepOutcome
from tonnage.extensions.moves.records import tables
from tonnage.extensions.moves.records.tables import MovePlanRow, MoveStepRow
from tonnage.extensions.relocation import cloud_obstacles, cloud_volumes, plan_choices
from tonnage.extensions.relocation.cinder_client import CinderClient, Volume
from tonnage.extensions.relocation.cloud_pools import Figures
from tonnage.extensions.relocation.plan_choices import Choices
from tonnage.ledger import models
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Seconds after the mark of a step in which its own process sends the request, and from which on others do.
_OWN, _OTHERS = 15.0, 30.0

#: Reports that may come before the room of a move is no longer waited for.
_MOST_REPORTS = 5


class CinderMover:
    """Lets Cinder move volumes. ``figures`` reads the pools; ``report_interval`` are the seconds between reports."""

    name = plan_choices.MOVER

    def __init__(
        self, client: CinderClient, database: Database, figures: Callable[[], Figures], report_interval: float
    ) -> None:
        self._client, self._database = client, database
        self._figures, self._report_interval = figures, report_interval

    def outcomes(self, plan: MovePlanRow, steps: Sequence[MoveStepRow]) -> Mapping[int, StepOutcome]:
        """Return the outcomes of steps that are moving, by their numbers."""
        choices = plan_choices.read(plan.mover_options or {})
        ages = self._ages(plan.id)
        outcomes = {}
        for step in steps:
            outcome = outcome_of(step, self._client.volume(step.volume_id), choices)
            if outcome is step_outcomes.UNDECIDED and ages.get(step.number, 0.0) < _OTHERS:
                outcome = step_outcomes.UNDER_WAY
            outcomes[step.number] = outcome
        return outcomes

    def request(self, plan: MovePlanRow, step: MoveStepRow) -> StepOutcome:
        """Order the move of a volume, after a last look at it.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if it is not known whether it begins.
        """
        choices = plan_choices.read(plan.mover_options or {})
        figures = self._figures()
        volume = self._client.volume(step.volume_id)
        outcome = outcome_of(step, volume, choices)
        age = self._ages(plan.id).get(step.number)
        if volume is None or outcome is not step_outcomes.UNDECIDED or age is None:
            return outcome
        if _OWN <= age < _OTHERS:
            # This process has been suspended; another one sends the request, or this one does later.
            return step_outcomes.UNDER_WAY
        new_type = choices.retype.get(volume.volume_type or "")
        try:
            if new_type is not None:
                self._client.retype(step.volume_id, new_type)
            else:
                lock = choices.lock and volume.status == "available"
                self._client.migrate(step.volume_id, step.target, is_cluster=figures.is_cluster(step.target), lock=lock)
        except (errors.Conflict, errors.NotFound) as error:
            # A process that was faster may have begun the move.
            outcome = outcome_of(step, self._client.volume(step.volume_id), choices)
            return StepOutcome(tables.SKIPPED, error.message) if outcome is step_outcomes.UNDECIDED else outcome
        return step_outcomes.UNDER_WAY

    def unsettled(self, session: orm.Session, plan: MovePlanRow) -> set[str]:
        """Return the volumes of ended steps whose room may not be in the figures of both pools yet."""
        row = MoveStepRow
        now = session.execute(sa.select(models.utcnow())).scalar_one()
        recent = session.execute(
            sa.select(row.volume_id, row.source, row.target, row.ended_at).where(
                row.plan_id == plan.id,
                row.generation == plan.generation,
                row.started_at.is_not(None),
                row.ended_at > now - datetime.timedelta(seconds=_MOST_REPORTS * self._report_interval),
            )
        ).all()
        if not recent:
            return set()
        figures = self._figures()
        margin = datetime.timedelta(seconds=self._report_interval)
        unsettled = set()
        for volume_id, source, target, ended_at in recent:
            for pool in (source, target):
                reported_at = figures.reported_at(pool)
                if reported_at is not None and ended_at is not None and reported_at - margin <= ended_at:
                    unsettled.add(volume_id)
        return unsettled

    def _ages(self, plan_id: str) -> dict[int, float]:
        """Return the seconds since the steps of a plan that are moving were marked, by the database's clock."""
        row = MoveStepRow
        with self._database.reading() as session:
            rows = session.execute(
                sa.select(row.number, row.started_at, models.utcnow()).where(
                    row.plan_id == plan_id, row.state == tables.MOVING
                )
            ).all()
        return {number: models.age(now, started_at) or 0.0 for number, started_at, now in rows}


def outcome_of(step: MoveStepRow, volume: Volume | None, choices: Choices) -> StepOutcome:
    """Return the outcome of a step by the state of its volume."""
    if volume is None or volume.pool is None or volume.status.startswith("deleting"):
        return StepOutcome(tables.SKIPPED, "the volume has been deleted meanwhile")
    if cloud_obstacles.is_moving(volume):
        return step_outcomes.UNDER_WAY
    before = step.volume_state or {}
    new_type = choices.retype.get(before.get("volume_type") or "")
    has_new_type = new_type is not None and volume.volume_type == new_type
    if volume.pool == step.target:
        return StepOutcome(tables.MOVED)
    if volume.pool != step.source:
        if has_new_type:
            return StepOutcome(tables.MOVED, f"Cinder's scheduler chose {volume.pool}")
        return StepOutcome(tables.SKIPPED, f"the volume is in {volume.pool} meanwhile")
    if cloud_volumes.state_of(volume) == before:
        return step_outcomes.UNDECIDED
    if has_new_type:
        return StepOutcome(tables.STEP_FAILED, f"Cinder gave it the type {new_type} and left it in its pool")
    return StepOutcome(tables.STEP_FAILED, f"it is back in its pool, {_trace(volume)}: the logs of Cinder say why")


def _trace(volume: Volume) -> str:
    migration = volume.migration_status or "none"
    return f"with the status {volume.status} and the migration status {migration}"
