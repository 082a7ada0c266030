# SPDX-License-Identifier: Apache-2.0
"""The parts of the extension in a scheduler: answers to questions for plans, and the execution of plans."""

import dataclasses
import datetime
import functools

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.moves import options
from tonnage.extensions.moves.execution.ledger_mover import LedgerMover
from tonnage.extensions.moves.execution.plan_executor import Clocks, PlanExecutor
from tonnage.extensions.moves.execution.plan_thread import PlanThread
from tonnage.extensions.moves.plan_messages import APPLY_MOVES, PLAN_MOVES
from tonnage.extensions.moves.plan_start import PlanStarter
from tonnage.extensions.moves.planner import Planner
from tonnage.extensions.moves.records import plan_retention
from tonnage.extensions.moves.records.hours import Hours
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.extensions.moves.room_adviser import RoomAdviser
from tonnage.rpc.handlers import RpcHandler
from tonnage.scheduler.extension_parts import SchedulerContext, SchedulerParts


def build(conf: cfg.ConfigOpts, context: SchedulerContext) -> SchedulerParts:
    """Return the parts."""
    section = conf[options.GROUP.name]
    limits = Limits(**{field.name: section[field.name] for field in dataclasses.fields(Limits)})
    planner = Planner(context.database, context.snapshots, context.growth_forecasts)
    clocks = Clocks(local=datetime.datetime.now, monotonic=context.clock)
    timeout, events = section.no_progress_timeout, context.events
    mover = LedgerMover(context.database, context.move)
    executor = PlanExecutor(context.database, planner, mover, timeout, clocks, events)
    starter = PlanStarter(context.database, planner, limits, events)
    adviser = RoomAdviser(context.database, planner)
    return SchedulerParts(
        advisers=[adviser],
        rpc_handlers=[RpcHandler(PLAN_MOVES, starter.preview), RpcHandler(APPLY_MOVES, starter.apply)],
        background=[PlanThread(executor, context.membership)],
        purges=[functools.partial(plan_retention.purge, days=section.retention_days)],
        closers=[adviser.close],
    )


def check(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for hours that are none."""
    try:
        Hours.parse(conf[options.GROUP.name].hours)
    except ValueError as error:
        raise errors.ConfigurationError(f"option [{options.GROUP.name}] hours is {error}") from None
