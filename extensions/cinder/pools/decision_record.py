# SPDX-License-Identifier: Apache-2.0
"""The verdicts of all filters during a decision, for its refusal and its explanation."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cinder.scheduler.filters import extra_specs_ops

from tonnage.capacity import plugin_errors
from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal, Rejection
from tonnage.extensions.cinder.pools import capacity_rejection
from tonnage.extensions.cinder.pools.rejections import CAPACITY, Reasons

#: Returns the names of filters, each with the pools that it refused.
Verdicts = Callable[[], Iterable[tuple[str, Sequence[Any]]]]

REASONS = Reasons(extra_specs_ops.match, capacity_rejection.rejection)


class RefusedPools(NamedTuple):
    """The pools that one filter has refused, for a request with these filter properties.

    ``failure`` is the error with which the filter failed for all of them, if it did.
    """

    filter: str
    states: Sequence[Any]
    properties: Mapping[str, Any]
    failure: Exception | None = None

    def reason(self, state: Any) -> Rejection:
        """Return the reason why one of the pools is refused."""
        if self.failure is None:
            return REASONS.reason(self.filter, state, self.properties)
        problem = f"could not be judged, {self.filter} failed ({plugin_errors.described(self.failure)})"
        return Rejection("filter_failed", problem)


class DecisionRecord:
    """The verdicts on a number of pools, by a version of the ledger's pools.

    They are collected only for a refusal or an explanation. ``ranked`` are the pools that all filters accept, with
    their weights, best first, and ``properties`` the filter properties that they were weighed by.
    """

    def __init__(self, pools: int = 0, version: int = 0) -> None:
        self._pools = pools
        self.version = version
        self.ranked: Sequence[Any] = ()
        self.properties: Mapping[str, Any] = {}
        self._verdicts: list[tuple[Verdicts, Mapping[str, Any]]] = []
        self._refused: list[RefusedPools] = []
        self._failed: list[RefusedPools] = []

    def add(self, verdicts: Verdicts, properties: Mapping[str, Any]) -> None:
        """Add the verdicts of the filters that ran next; ``properties`` are the filter properties of the request."""
        self._verdicts.append((verdicts, properties))

    def add_failure(self, name: str, states: Sequence[Any], properties: Mapping[str, Any], failure: Exception) -> None:
        """Add the failure of a filter, or of weighers, for these pools: the last verdict of a decision."""
        self._failed = [RefusedPools(name, states, properties, failure)]

    def add_filter(
        self, name: str, before: Collection[Any], passed: Collection[Any], properties: Mapping[str, Any]
    ) -> None:
        """Add the verdicts of one filter, which got the pools ``before``."""

        def verdicts() -> Iterable[tuple[str, Sequence[Any]]]:
            kept = {id(state) for state in passed}
            return [(name, [state for state in before if id(state) not in kept])]

        self.add(verdicts, properties)

    def refused(self) -> Sequence[RefusedPools]:
        """Return the pools that each filter has refused, in the order of the filters; some have refused none."""
        for verdicts, properties in self._verdicts:
            self._refused += [RefusedPools(name, states, properties) for name, states in verdicts()]
        self._verdicts.clear()
        return [*self._refused, *self._failed]

    @property
    def has_stale_refusals(self) -> bool:
        """Return whether a refused pool would have room if its figures contained the claims in flight already."""
        return any(
            capacity_rejection.may_be_counted_twice(refused.states, refused.properties)
            for refused in self.refused()
            if refused.filter == CAPACITY and refused.failure is None
        )

    def refusal(self, text: str, pool: str | None = None) -> Refusal:
        """Return the reason why no pool is left."""
        refusals = [refused for refused in self.refused() if refused.states]
        # The pool with the most room tells more than a pool that another filter refused.
        by_capacity = [refused for refused in refusals if refused.filter == CAPACITY]
        return Refusal(
            request=text,
            pools=self._pools,
            outcomes=tuple(FilterOutcome(refused.filter, len(refused.states)) for refused in refusals),
            nearest=_nearest((by_capacity[-1:] or refusals)[0]) if refusals else None,
            pool=pool,
        )


def _nearest(refused: RefusedPools) -> NearestMiss:
    """Return the pool that came closest to a request among those that a filter refused; there is at least one."""
    state = refused.states[0]
    if refused.filter == CAPACITY:
        state = max(refused.states, key=lambda pool: capacity_rejection.headroom(pool, refused.properties))
    return NearestMiss(state.backend_id, refused.filter, refused.reason(state))
