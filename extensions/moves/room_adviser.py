# SPDX-License-Identifier: Apache-2.0
"""The adviser that offers moves: they would make room for a refused request."""

import logging
import shlex
import threading
from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import Protocol

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.decision import NO_CAPACITY
from tonnage.capacity.explanation import Explanation
from tonnage.extensions.moves.goals.fit import Fit
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.records import plan_records
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db.database import Database
from tonnage.rpc.messages import CreateVolume
from tonnage.scheduler.simulation.adviser import Adviser

LOG = logging.getLogger(__name__)

#: Seconds that an explanation waits for a plan.
LONGEST_PLAN = 5.0


class Planner(Protocol):
    """Makes plans."""

    def plan_beside(self, query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        """Return a plan for a goal that uses no pool of other plans."""


class RoomAdviser(Adviser):
    """Plans moves for a create that lacks room, in a thread of its own, and waits ``timeout`` seconds for the plan.

    The plan leaves the pools of unfinished plans alone, so it can be carried out. There is no advice while a plan for
    another request is being made.
    """

    def __init__(self, database: Database, planner: Planner, timeout: float = LONGEST_PLAN) -> None:
        self._database, self._planner, self._timeout = database, planner, timeout
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="room-adviser")
        self._is_free = threading.Semaphore()

    def advise(self, message: CreateVolume, explanation: Explanation) -> Sequence[str]:
        """Return the number of moves and their GiB, with the command that shows them, if moves make room.

        A request with hints, a source or a group gets none: the goal does not have these.
        """
        nearest = None if explanation.refusal is None else explanation.refusal.nearest
        has_more = message.hints or message.source_volume_id or message.group_id
        if nearest is None or nearest.rejection.code != NO_CAPACITY or has_more:
            return ()
        with self._database.reading() as session:
            type_name = _type_name(session, message.volume_type)
            held = plan_records.held_by_others(session, "")
        named = {"volume_type": type_name, "zone": message.availability_zone}
        arguments = {name: value for name, value in named.items() if value}
        plan = self._plan(PlanQuery(goal=Fit.name, arguments={"size": message.size_gb, **arguments}), held)
        if plan is None or not plan.is_reached or not plan.moves:
            return ()
        options = {argument.name: f"--{argument.option_name}" for argument in Fit.arguments}
        words = [f" {options[name]} {shlex.quote(value)}" for name, value in arguments.items()]
        return [f"{plan.amount} would make room: tonnage plan fit {message.size_gb}{''.join(words)}"]

    def close(self) -> None:
        """Begin no further plan."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _plan(self, query: PlanQuery, held: Mapping[str, str]) -> MovePlan | None:
        """Return the plan; None if it takes too long, or cannot be made."""
        if not self._is_free.acquire(blocking=False):
            return None
        try:
            planned = self._thread.submit(self._planner.plan_beside, query, held)
        except RuntimeError:
            # The scheduler ends.
            self._is_free.release()
            return None
        planned.add_done_callback(lambda _: self._is_free.release())
        try:
            return planned.result(self._timeout)
        except futures.TimeoutError:
            LOG.info("No advice for a volume of %s GiB: no plan within %g s", query.arguments["size"], self._timeout)
        except errors.TonnageError as error:
            LOG.info("No advice for a volume of %s GiB: %s", query.arguments["size"], error.message)
        return None


def _type_name(session: orm.Session, reference: str | None) -> str | None:
    """Return the name of a volume type, None for the type of the migrations if it demands nothing.

    Explanations name types by their ids, and that type where a request names none.
    """
    volume_type = volume_types.read_specs(session, [reference]).get(reference) if reference else None
    if volume_type is None:
        return reference
    demands = volume_type.extra_specs or volume_type.qos_specs
    return None if volume_type.name == volume_types.DEFAULT and not demands else volume_type.name
