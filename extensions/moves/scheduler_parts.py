# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in a scheduler: answers to questions for plans."""

from oslo_config import cfg

from tonnage.extensions.moves.plan_messages import PLAN_MOVES
from tonnage.extensions.moves.planner import Planner
from tonnage.rpc.handlers import RpcHandler
from tonnage.scheduler.extension_parts import SchedulerContext, SchedulerParts


def build(conf: cfg.ConfigOpts, context: SchedulerContext) -> SchedulerParts:
    """Return the parts."""
    planner = Planner(context.database, context.snapshots)
    return SchedulerParts(rpc_handlers=[RpcHandler(PLAN_MOVES, planner.plan)])
