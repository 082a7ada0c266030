# SPDX-License-Identifier: Apache-2.0
"""The scheduler's RPC methods.

Each takes one argument, ``message``; :mod:`tonnage.rpc.messages` and
:mod:`tonnage.extensions.kubernetes.fit.node_fit_messages` have the types.

=================  ==================  ======================================================================
method             message -> answer   meaning
=================  ==================  ======================================================================
hello              Hello -> Welcome    an agent process introduces a backend and gets its epoch
listing            Listing -> Receipt  all volumes on a backend
report             PackedReport        figures of a backend's pools (fanout cast, no answer)
stamps             StampQuery ->       stamps of shared storages for a report that has not begun
                   mapping
outcomes           Outcomes ->         outcomes of commands
                   [Receipt]
request_batch      RequestBatch ->     decide on creates and extends, begin deletions, each request for itself;
                   [answer]            answered after the commit
create_group       CreateGroup ->      the same for several new volumes, all or none
                   GroupAnswer
migrate_volume     MigrateVolume ->    the same for a volume that has to leave its pool
                   Answer
retype_volume      RetypeVolume ->     the same for a new type of a volume, in its pool or in another
                   Answer
manage_volume      ManageVolume        adopt a volume that is on the storage already
unmanage_volume    UnmanageVolume      remove a volume from the ledger and leave it on the storage
set_backend_state  SetBackendState     enable, disable or drain a backend
list_now           ListBackends        have agents list all volumes soon (cast, no answer)
get_pools          PoolQuery ->        pools with capabilities and capacity factors
                   [PoolView]
get_pool_list      PoolListQuery       the same as JSON of the REST API
                   -> [PoolListText]
explain            CreateVolume ->     the decision that a create would get now, pool by pool; no side effect
                   Explanation
what_if            WhatIf ->           the decisions that requests of any kind would get one after another, with
                   [SimulationResult]  or without hypothetical changes; no side effect
fit_nodes          FitQuery ->         the nodes of a cluster with room for volumes together, and reasons for the
                   FitAnswer           others; no side effect
=================  ==================  ======================================================================
"""

from typing import Any, TypeVar

from tonnage.extensions.kubernetes.fit.node_fit_messages import FitQuery
from tonnage.rpc import request_batch, serialization
from tonnage.rpc.messages import (
    CreateGroup,
    CreateVolume,
    Hello,
    ListBackends,
    Listing,
    ManageVolume,
    MigrateVolume,
    Outcomes,
    PoolListQuery,
    PoolQuery,
    RetypeVolume,
    SetBackendState,
    StampQuery,
    UnmanageVolume,
    WhatIf,
)
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests import request_validation
from tonnage.scheduler.requests.placement_requests import Move

RequestT = TypeVar("RequestT", bound=request_validation.IdentifiedRequest)


class SchedulerEndpoint:
    """Decodes messages and passes them on; :mod:`tonnage.rpc.serialization` encodes the results."""

    def __init__(self, manager: SchedulerManager) -> None:
        self._manager = manager

    def hello(self, ctxt: Any, message: Any) -> Any:
        """Give an agent process its epoch."""
        return self._manager.hello(serialization.unpack(message, Hello))

    def listing(self, ctxt: Any, message: Any) -> Any:
        """Handle a listing of a backend's volumes."""
        return self._manager.listing(serialization.unpack(message, Listing))

    def report(self, ctxt: Any, message: Any) -> None:
        """Handle a report of a backend."""
        self._manager.report(serialization.unpack(message, PackedReport))

    def outcomes(self, ctxt: Any, message: Any) -> Any:
        """Handle outcomes of commands."""
        return self._manager.outcomes(serialization.unpack(message, Outcomes).outcomes)

    def stamps(self, ctxt: Any, message: Any) -> Any:
        """Give stamps for a report that has not begun."""
        return self._manager.stamps(serialization.unpack(message, StampQuery))

    def create_group(self, ctxt: Any, message: Any) -> Any:
        """Place several new volumes, all or none."""
        return self._manager.place(_request(message, CreateGroup))

    def migrate_volume(self, ctxt: Any, message: Any) -> Any:
        """Move a volume."""
        return self._manager.place(Move(_request(message, MigrateVolume)))

    def retype_volume(self, ctxt: Any, message: Any) -> Any:
        """Change the type of a volume."""
        return self._manager.place(_request(message, RetypeVolume))

    def request_batch(self, ctxt: Any, message: Any) -> Any:
        """Handle the requests of a batch."""
        return request_batch.serve(message, self._manager.handle_batch, request_validation.check_request_id)

    def manage_volume(self, ctxt: Any, message: Any) -> None:
        """Adopt a volume on the storage."""
        self._manager.manage(_request(message, ManageVolume))

    def unmanage_volume(self, ctxt: Any, message: Any) -> None:
        """Remove a volume from the ledger."""
        self._manager.unmanage(_request(message, UnmanageVolume))

    def set_backend_state(self, ctxt: Any, message: Any) -> None:
        """Enable, disable or drain a backend."""
        self._manager.set_backend_state(serialization.unpack(message, SetBackendState))

    def list_now(self, ctxt: Any, message: Any) -> None:
        """Have agents list all volumes soon."""
        self._manager.list_now(serialization.unpack(message, ListBackends))

    def get_pools(self, ctxt: Any, message: Any) -> Any:
        """Show pools."""
        return self._manager.get_pools(serialization.unpack(message, PoolQuery))

    def get_pool_list(self, ctxt: Any, message: Any) -> Any:
        """Show pools as JSON of the REST API."""
        return self._manager.get_pool_list(serialization.unpack(message, PoolListQuery))

    def explain(self, ctxt: Any, message: Any) -> Any:
        """Explain a decision without making it."""
        return self._manager.explain(serialization.unpack(message, CreateVolume))

    def what_if(self, ctxt: Any, message: Any) -> Any:
        """Simulate decisions on requests."""
        return self._manager.what_if(serialization.unpack(message, WhatIf))

    def fit_nodes(self, ctxt: Any, message: Any) -> Any:
        """Return the nodes with room for volumes together."""
        return self._manager.fit_nodes(serialization.unpack(message, FitQuery))


def _request(message: Any, message_type: type[RequestT]) -> RequestT:
    """Return the request in a message, with a valid request id."""
    request = serialization.unpack(message, message_type)
    request_validation.check_request_id(request)
    return request
