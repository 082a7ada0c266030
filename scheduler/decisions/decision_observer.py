# SPDX-License-Identifier: Apache-2.0
"""The observers of decisions: they record, explain or count them, and change nothing."""

from collections.abc import Sequence

from tonnage.capacity.decision import Decision, Placement, Refusal
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.extension import Hook
from tonnage.rpc.messages import Answer, GroupAnswer
from tonnage.scheduler.requests.placement_requests import Work
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.steps.group_packing import GroupPacking


class DecisionObserver(Hook):
    """An observer of decisions. The decision thread calls the methods; each has a default that does nothing."""

    def begin(self, rules: Rules) -> None:
        """Forget the decisions that were not booked: a batch is decided, or decided again, by these rules."""

    def decided(self, pools: PoolTable, rules: Rules, request: Request, decision: Decision, *, in_place: bool) -> None:
        """Record the decision on one volume; ``in_place`` is true for one that asks to stay in its pool.

        The table is still as the decision saw it.
        """

    def packed(self, packing: GroupPacking, result: Sequence[Placement] | Refusal) -> None:
        """Record the decision on several volumes, all or none. The table is still as the decision saw it."""

    def booked(self) -> None:
        """Act after the commit of the decisions since :meth:`begin`."""

    def answered(self, work: Sequence[Work], answers: Sequence[Answer | GroupAnswer | Exception]) -> None:
        """Act after the answers to a batch are known, in the order of its requests."""
