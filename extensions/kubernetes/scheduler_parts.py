# SPDX-License-Identifier: Apache-2.0
"""The part of the extension ``kubernetes`` in a scheduler: answers to node-fit queries."""

from oslo_config import cfg

from tonnage.extensions.kubernetes.fit.node_fit import NodeFit
from tonnage.extensions.kubernetes.fit.node_fit_messages import FIT_NODES
from tonnage.rpc.handlers import RpcHandler
from tonnage.scheduler.extension_parts import SchedulerContext, SchedulerParts


def build(conf: cfg.ConfigOpts, context: SchedulerContext) -> SchedulerParts:
    """Return the parts of a scheduler."""
    return SchedulerParts(rpc_handlers=[RpcHandler(FIT_NODES, NodeFit(context.database).answer)])
