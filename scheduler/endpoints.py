# SPDX-License-Identifier: Apache-2.0
"""The scheduler's RPC methods, version 1.0.

Each takes one argument, ``message``; :mod:`tonnage.rpc.messages` has the types.

================  ==================  =======================================================================
method            message -> answer   meaning
================  ==================  =======================================================================
hello             Hello -> Welcome    an agent process introduces a backend and gets its epoch
listing           Listing -> Receipt  all volumes that a backend holds
report            BackendReport       figures of a backend's pools (fanout cast, no answer)
outcome           Outcome -> Receipt  how an operation ended
create_volume     CreateVolume ->     decide, claim and order a new volume; answered after the commit
                  Answer
extend_volume     ExtendVolume ->     the same for the growth of a volume, in its pool
                  Answer
delete_volume     DeleteVolume        order a deletion; capacity comes back when it is confirmed
get_pools         PoolQuery ->        pools with capabilities and capacity factors
                  [PoolView]
explain           CreateVolume ->     how a create would be decided now, pool by pool; no side effect
                  Explanation
================  ==================  =======================================================================
"""

from typing import Any

import oslo_messaging

from tonnage.rpc import wire
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import DeleteVolume
from tonnage.rpc.messages import ExtendVolume
from tonnage.rpc.messages import Hello
from tonnage.rpc.messages import Listing
from tonnage.rpc.messages import Outcome
from tonnage.rpc.messages import PoolQuery
from tonnage.scheduler.core import SchedulerCore


class SchedulerEndpoint:
    """Decodes and hands over; :mod:`tonnage.rpc.answers` encodes."""

    target = oslo_messaging.Target(version="1.0")

    def __init__(self, core: SchedulerCore) -> None:
        self._core = core

    def hello(self, ctxt: Any, message: Any) -> Any:
        """Give an agent process its epoch."""
        return self._core.hello(wire.unpack(message, Hello))

    def listing(self, ctxt: Any, message: Any) -> Any:
        """Take in what a backend holds."""
        return self._core.listing(wire.unpack(message, Listing))

    def report(self, ctxt: Any, message: Any) -> None:
        """Take in a backend's figures."""
        self._core.report(wire.unpack(message, BackendReport))

    def outcome(self, ctxt: Any, message: Any) -> Any:
        """Take in how an operation ended."""
        return self._core.outcome(wire.unpack(message, Outcome))

    def create_volume(self, ctxt: Any, message: Any) -> Any:
        """Place a new volume."""
        return self._core.create(wire.unpack(message, CreateVolume))

    def extend_volume(self, ctxt: Any, message: Any) -> Any:
        """Grow a volume."""
        return self._core.extend(wire.unpack(message, ExtendVolume))

    def delete_volume(self, ctxt: Any, message: Any) -> None:
        """Delete a volume."""
        self._core.delete(wire.unpack(message, DeleteVolume))

    def get_pools(self, ctxt: Any, message: Any) -> Any:
        """Show pools."""
        return self._core.get_pools(wire.unpack(message, PoolQuery))

    def explain(self, ctxt: Any, message: Any) -> Any:
        """Explain a decision without making it."""
        return self._core.explain(wire.unpack(message, CreateVolume))
