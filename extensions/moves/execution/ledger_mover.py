# SPDX-License-Identifier: Apache-2.0
"""The mover of Tonnage's own volumes: a step is an ordinary migration, which a scheduler decides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import orm

from tonnage.extensions.moves.execution import step_outcomes
from tonnage.extensions.moves.execution.step_outcomes import StepOutcome
from tonnage.extensions.moves.records.tables import MovePlanRow, MoveStepRow
from tonnage.ledger.db.database import Database
from tonnage.rpc.messages import Answer
from tonnage.scheduler.requests.placement_requests import Move


class LedgerMover:
    """Lets a scheduler move volumes. ``place`` decides a request as one of a client."""

    name = ""

    def __init__(self, database: Database, place: Callable[[Move], Answer]) -> None:
        self._database, self._place = database, place

    def outcomes(self, plan: MovePlanRow, steps: Sequence[MoveStepRow]) -> Mapping[int, StepOutcome]:
        """Return the outcomes of steps that are moving, by their numbers."""
        with self._database.reading() as session:
            return step_outcomes.read(session, steps)

    def request(self, plan: MovePlanRow, step: MoveStepRow) -> StepOutcome:
        """Make the request of a step, which takes effect once. Raises the errors of the decision."""
        move = step_outcomes.move_of(step)
        # A scheduler that is suspended here makes no request later that another one has long made and forgotten.
        message = replace(move.message, asked_at=self._database.recent_time())
        return step_outcomes.of_answer(self._place(replace(move, message=message)))

    def unsettled(self, session: orm.Session, plan: MovePlanRow) -> set[str]:
        """Return the volumes of ended steps whose room is not free yet, or not in the figures."""
        return step_outcomes.unsettled(session, plan.id, plan.generation)
