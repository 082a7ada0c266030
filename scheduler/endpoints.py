# SPDX-License-Identifier: Apache-2.0
"""The scheduler's RPC methods: which function of the manager handles the messages of each method."""

from tonnage.rpc import contract, request_batch
from tonnage.rpc.handlers import Endpoint, RpcHandler
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.placement_requests import Move


def build(manager: SchedulerManager) -> Endpoint:
    """Return the endpoint of a scheduler, with the methods of its enabled extensions.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` if an extension serves a method that has a handler.
    """
    return Endpoint(
        "scheduler",
        contract.SCHEDULER_METHODS,
        [
            RpcHandler(contract.HELLO, manager.hello),
            RpcHandler(contract.LISTING, manager.listing),
            RpcHandler(contract.REPORT, manager.report),
            RpcHandler(contract.NOTICE, manager.notice),
            RpcHandler(contract.STAMPS, manager.stamps),
            RpcHandler(contract.OUTCOMES, lambda message: manager.outcomes(message.outcomes)),
            RpcHandler(contract.REQUEST_BATCH, lambda batch: request_batch.serve(batch, manager.handle_batch)),
            RpcHandler(contract.CREATE_GROUP, manager.place),
            RpcHandler(contract.MIGRATE_VOLUME, lambda message: manager.place(Move(message))),
            RpcHandler(contract.RETYPE_VOLUME, manager.place),
            RpcHandler(contract.MANAGE_VOLUME, manager.manage),
            RpcHandler(contract.UNMANAGE_VOLUME, manager.unmanage),
            RpcHandler(contract.SET_BACKEND_STATE, manager.set_backend_state),
            RpcHandler(contract.LIST_BACKENDS, manager.list_now),
            RpcHandler(contract.GET_POOLS, manager.get_pools),
            RpcHandler(contract.GET_POOL_LIST, manager.get_pool_list),
            RpcHandler(contract.EXPLAIN, manager.explain),
            RpcHandler(contract.WHAT_IF, manager.what_if),
            *manager.extensions.rpc_handlers,
        ],
    )
