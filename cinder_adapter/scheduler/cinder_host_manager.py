# SPDX-License-Identifier: Apache-2.0
"""Cinder's host manager with the ledger's figures: Cinder's filters and weighers see the claims in flight."""

import contextlib
import copy
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cinder.scheduler import host_manager

from tonnage.capacity import errors
from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal
from tonnage.capacity.pools.pool import backend_of
from tonnage.cinder_adapter.scheduler import capacity_rejection
from tonnage.cinder_adapter.scheduler.cinder_ledger import CinderLedger
from tonnage.ledger.inventory.backends import PoolRow

LOG = logging.getLogger(__name__)

#: The name under which pools are refused in which the volume has failed, as in Cinder.
_ATTEMPTED = "RetryFilter"


class Decision:
    """The filters' verdicts during the decision of one request.

    ``unknown`` is the number of pools that were left out because no probe of them has been answered.
    """

    def __init__(self, pools: Sequence[Any], unknown: int) -> None:
        self._pools, self._unknown = len(pools), unknown
        self._outcomes: list[FilterOutcome] = []
        self._nearest: NearestMiss | None = None
        #: Whether a pool was refused that has room if its figures contain the claims in flight already.
        self.doubtful = False

    def refused(self, name: str, states: Sequence[Any], properties: Mapping[str, Any]) -> None:
        """Note that a filter refused these pools."""
        if not states:
            return
        self._outcomes.append(FilterOutcome(name, len(states)))
        is_capacity = name == capacity_rejection.CAPACITY
        if self._nearest is None or is_capacity:
            self._nearest = capacity_rejection.nearest(name, states, properties)
        if is_capacity and capacity_rejection.may_be_counted_twice(states, properties):
            self.doubtful = True

    def refusal(self, text: str, pool: str | None = None) -> Refusal:
        """Return the reason why no pool is left."""
        return Refusal(
            request=text, pools=self._pools, outcomes=tuple(self._outcomes), nearest=self._nearest, pool=pool
        )


class LedgerHostManager(host_manager.HostManager):  # type: ignore[misc]
    """Cinder's host manager. Without :attr:`ledger` it is as Cinder's own."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger: CinderLedger | None = None
        self._lock = threading.RLock()
        self._local = threading.local()

    @property
    def bounded(self) -> bool:
        """Whether a filter compares capacities."""
        return any(each.__name__ == capacity_rejection.CAPACITY for each in self.enabled_filters)

    @property
    def decision(self) -> Decision:
        """The decision that this thread has made last."""
        return getattr(self._local, "decision", None) or Decision((), 0)

    @contextlib.contextmanager
    def without_ledger(self) -> Iterator[None]:
        """Let this thread decide without the ledger."""
        self._local.away = True
        try:
            yield
        finally:
            self._local.away = False

    @contextlib.contextmanager
    def only(self, place: str | None) -> Iterator[None]:
        """Let this thread see only one pool, or only the pools of one backend."""
        self._local.only = place
        try:
            yield
        finally:
            self._local.only = None

    def has_all_figures(self) -> bool:
        """Return whether a probe has been answered for each pool that was reported."""
        if self.ledger is None:
            return True
        with self._lock:
            known = {pool.backend_id for state in self.backend_state_map.values() for pool in state.pools.values()}
        return known <= self.ledger.pools().keys()

    def backends_up(self, context: Any) -> dict[str, str]:
        """Return the backends that can be probed, with their availability zones."""
        with self._lock:
            self._update_backend_state_map(context)
            return {
                name: str(state.service.get("availability_zone") or "")
                for name, state in self.backend_state_map.items()
            }

    def update_service_capabilities(self, *args: Any, **kwargs: Any) -> None:
        with self._lock:
            super().update_service_capabilities(*args, **kwargs)

    def get_all_backend_states(self, context: Any) -> Iterable[Any]:
        with self._lock:
            known = list(super().get_all_backend_states(context))
        place = getattr(self._local, "only", None)
        if place is not None:
            known = [state for state in known if place in (state.backend_id, backend_of(state.backend_id))]
        if self.ledger is None or getattr(self._local, "away", False):
            self._local.decision = Decision(known, 0)
            return known
        rows = self.ledger.pools()
        states = [with_figures(state, rows[state.backend_id]) for state in known if state.backend_id in rows]
        self._local.decision = Decision(states, len(known) - len(states))
        return states

    def get_filtered_backends(
        self, backends: Iterable[Any], filter_properties: Any, filter_class_names: Any = None
    ) -> list[Any]:
        decision = self.decision
        left = list(backends)
        attempted = set((filter_properties.get("retry") or {}).get("backends") or ())
        if attempted and self.ledger is not None:
            # Cinder tries a pool again in which the volume has just failed, while others are free.
            decision.refused(_ATTEMPTED, [each for each in left if each.backend_id in attempted], filter_properties)
            left = [each for each in left if each.backend_id not in attempted]
        classes = (
            self.enabled_filters if filter_class_names is None else self._choose_backend_filters(filter_class_names)
        )
        for each in classes:
            if not left:
                break
            passed = self.filter_handler.get_filtered_objects([each], left, filter_properties) or []
            kept = {id(state) for state in passed}
            decision.refused(each.__name__, [state for state in left if id(state) not in kept], filter_properties)
            left = passed
        return left

    def get_pools(self, context: Any, filters: Any = None) -> list[dict[str, Any]]:
        """Return Cinder's pools, with the figures by which they are chosen and the capacity in flight."""
        with self._lock:
            found: list[dict[str, Any]] = super().get_pools(context, filters)
        try:
            rows = {} if self.ledger is None else self.ledger.pools()
        except errors.Unavailable as error:
            LOG.warning("The pools are listed without the capacity in flight: %s", error)
            rows = {}
        return [
            each
            if each["name"] not in rows
            else {**each, "capabilities": _shown(each["capabilities"], rows[each["name"]])}
            for each in found
        ]


def _shown(capabilities: Mapping[str, Any], row: PoolRow) -> dict[str, Any]:
    counters = row.counters
    provisioned = row.stats.get("provisioned_capacity_gb")
    shown = {**capabilities, "allocated_capacity_gb": counters.allocated, "in_flight_capacity_gb": counters.in_flight}
    if provisioned is not None:
        shown["provisioned_capacity_gb"] = float(provisioned) + counters.in_flight
    return shown


def with_figures(state: Any, row: PoolRow) -> Any:
    """Return a pool of Cinder's with the figures of the ledger: those of the last probe, and the capacity in flight."""
    pool = copy.copy(state)
    stats = row.stats
    pool.total_capacity_gb = stats.get("total_capacity_gb", 0)
    pool.free_capacity_gb = _less(stats.get("free_capacity_gb", 0), row.counters.in_flight_physical)
    pool.allocated_capacity_gb = row.counters.allocated
    pool.provisioned_capacity_gb = (
        row.counters.allocated
        if stats.get("provisioned_capacity_gb") is None
        else float(stats["provisioned_capacity_gb"]) + row.counters.in_flight
    )
    pool.reserved_percentage = stats.get("reserved_percentage", 0)
    pool.max_over_subscription_ratio = row.ratio
    pool.thin_provisioning_support = stats.get("thin_provisioning_support", False)
    pool.thick_provisioning_support = stats.get("thick_provisioning_support", False)
    pool.row = row
    return pool


def _less(free: Any, physical: int) -> Any:
    return free - physical if isinstance(free, (int, float)) else free
