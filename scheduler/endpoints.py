# SPDX-License-Identifier: Apache-2.0
"""The scheduler's RPC methods.

Each takes one argument, ``message``; :mod:`tonnage.rpc.messages` and :mod:`tonnage.rpc.node_fit_messages` have the
types.

=================  ==================  ======================================================================
method             message -> answer   meaning
=================  ==================  ======================================================================
hello              Hello -> Welcome    an agent process introduces a backend and gets its epoch
listing            Listing -> Receipt  all volumes that a backend holds
report             PackedReport        figures of a backend's pools (fanout cast, no answer)
stamps             StampQuery ->       stamps for a look at storages that is about to begin
                   mapping
outcomes           Outcomes ->         how operations ended
                   [Receipt]
orders             Orders ->           decide, claim and order new volumes, growth in a volume's pool and deletions,
                   [answer]            each request for itself; answered after the commit
create_group       CreateGroup ->      the same for several new volumes, all or none
                   GroupAnswer
migrate_volume     MigrateVolume ->    the same for a volume that shall leave its pool
                   Answer
retype_volume      RetypeVolume ->     give a volume another type, where it is or elsewhere
                   Answer
manage_volume      ManageVolume        take over what is on the storage already
unmanage_volume    UnmanageVolume      forget a volume and leave it on the storage
set_backend_state  SetBackendState     enable, disable or drain a backend
get_pools          PoolQuery ->        pools with capabilities and capacity factors
                   [PoolView]
spelled_pools      SpelledPoolQuery    the same as text, for who passes it on
                   -> [SpelledPools]
explain            CreateVolume ->     how a create would be decided now, pool by pool; no side effect
                   Explanation
what_if            WhatIf ->           how requests of any kind would be decided one after another, as
                   [Outlook]           things are or if some were different; no side effect
fit_nodes          FitQuery ->         which nodes of a cluster take volumes together, and why the others do not; no
                   FitAnswer           side effect
=================  ==================  ======================================================================
"""

from typing import Any, Protocol, TypeVar

from tonnage.rpc import serialization
from tonnage.rpc.batching import request_batch
from tonnage.rpc.batching.packed_reports import PackedReport
from tonnage.rpc.messages import (
    CreateGroup,
    CreateVolume,
    Hello,
    Listing,
    ManageVolume,
    MigrateVolume,
    Outcomes,
    PoolQuery,
    RetypeVolume,
    SetBackendState,
    SpelledPoolQuery,
    StampQuery,
    UnmanageVolume,
    WhatIf,
)
from tonnage.rpc.node_fit_messages import FitQuery
from tonnage.scheduler import request_validation
from tonnage.scheduler.decisions.placement_requests import Move
from tonnage.scheduler.manager import SchedulerManager


class _Request(Protocol):
    @property
    def request_id(self) -> str: ...


_Kind = TypeVar("_Kind", bound=_Request)


class SchedulerEndpoint:
    """Decodes and hands over; :mod:`tonnage.rpc.envelope` encodes."""

    def __init__(self, core: SchedulerManager) -> None:
        self._core = core

    def hello(self, ctxt: Any, message: Any) -> Any:
        """Give an agent process its epoch."""
        return self._core.hello(serialization.unpack(message, Hello))

    def listing(self, ctxt: Any, message: Any) -> Any:
        """Take in what a backend holds."""
        return self._core.listing(serialization.unpack(message, Listing))

    def report(self, ctxt: Any, message: Any) -> None:
        """Take in a backend's figures."""
        self._core.report(serialization.unpack(message, PackedReport))

    def outcomes(self, ctxt: Any, message: Any) -> Any:
        """Take in how several operations ended."""
        return self._core.outcomes(serialization.unpack(message, Outcomes).outcomes)

    def stamps(self, ctxt: Any, message: Any) -> Any:
        """Give a look its stamps."""
        return self._core.stamps(serialization.unpack(message, StampQuery))

    def create_group(self, ctxt: Any, message: Any) -> Any:
        """Place several new volumes, all or none."""
        return self._core.place(_request(message, CreateGroup))

    def migrate_volume(self, ctxt: Any, message: Any) -> Any:
        """Move a volume."""
        return self._core.place(Move(_request(message, MigrateVolume)))

    def retype_volume(self, ctxt: Any, message: Any) -> Any:
        """Give a volume another type."""
        return self._core.place(_request(message, RetypeVolume))

    def orders(self, ctxt: Any, message: Any) -> Any:
        """Take requests that came together."""
        return request_batch.serve(message, self._core.orders, _check)

    def manage_volume(self, ctxt: Any, message: Any) -> None:
        """Take over what is on the storage."""
        self._core.manage(_request(message, ManageVolume))

    def unmanage_volume(self, ctxt: Any, message: Any) -> None:
        """Forget a volume."""
        self._core.unmanage(_request(message, UnmanageVolume))

    def set_backend_state(self, ctxt: Any, message: Any) -> None:
        """Enable, disable or drain a backend."""
        self._core.set_backend_state(serialization.unpack(message, SetBackendState))

    def get_pools(self, ctxt: Any, message: Any) -> Any:
        """Show pools."""
        return self._core.get_pools(serialization.unpack(message, PoolQuery))

    def spelled_pools(self, ctxt: Any, message: Any) -> Any:
        """Show pools in the words of the REST API."""
        return self._core.spelled_pools(serialization.unpack(message, SpelledPoolQuery))

    def explain(self, ctxt: Any, message: Any) -> Any:
        """Explain a decision without making it."""
        return self._core.explain(serialization.unpack(message, CreateVolume))

    def what_if(self, ctxt: Any, message: Any) -> Any:
        """Explain decisions that would be made one after another, without making them."""
        return self._core.what_if(serialization.unpack(message, WhatIf))

    def fit_nodes(self, ctxt: Any, message: Any) -> Any:
        """Tell which nodes take volumes together."""
        return self._core.fit_nodes(serialization.unpack(message, FitQuery))


def _request(message: Any, kind: type[_Kind]) -> _Kind:
    """Return the request that a message holds, which is known by its id from now on."""
    request = serialization.unpack(message, kind)
    _check(request)
    return request


def _check(request: _Request) -> None:
    request_validation.check_request_id(request.request_id)
