# SPDX-License-Identifier: Apache-2.0
"""The verdicts of all filters during a decision, for its refusal and its explanation."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cinder.scheduler.filters import extra_specs_ops

from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal
from tonnage.cinder_adapter.pools import capacity_rejection
from tonnage.cinder_adapter.pools.rejections import CAPACITY, Reasons

#: Returns the names of filters, each with the pools that it refused.
Verdicts = Callable[[], Iterable[tuple[str, Sequence[Any]]]]

REASONS = Reasons(extra_specs_ops.match, capacity_rejection.rejection)


class RefusedPools(NamedTuple):
    """The pools that one filter has refused, for a request with these filter properties."""

    filter: str
    states: Sequence[Any]
    properties: Mapping[str, Any]


class DecisionRecord:
    """The verdicts on a number of pools, by a version of the ledger's pools.

    They are collected only for a refusal or an explanation. ``ranked`` are the pools that all filters left, with their
    weights, best first, and ``properties`` the filter properties that they were weighed by.
    """

    def __init__(self, pools: int = 0, version: int = 0) -> None:
        self._pools = pools
        self.version = version
        self.ranked: Sequence[Any] = ()
        self.properties: Mapping[str, Any] = {}
        self._verdicts: list[tuple[Verdicts, Mapping[str, Any]]] = []
        self._refused: list[RefusedPools] = []

    def add(self, verdicts: Verdicts, properties: Mapping[str, Any]) -> None:
        """Add the verdicts of filters that ran after those before; ``properties`` are those of the request."""
        self._verdicts.append((verdicts, properties))

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
        return self._refused

    @property
    def doubtful(self) -> bool:
        """Whether a pool was refused that has room if its figures contain the claims in flight already."""
        return any(
            capacity_rejection.may_be_counted_twice(each.states, each.properties)
            for each in self.refused()
            if each.filter == CAPACITY
        )

    def refusal(self, text: str, pool: str | None = None) -> Refusal:
        """Return the reason why no pool is left."""
        found = [each for each in self.refused() if each.states]
        # The pool with the most room tells more than one of another kind.
        by_capacity = [each for each in found if each.filter == CAPACITY]
        return Refusal(
            request=text,
            pools=self._pools,
            outcomes=tuple(FilterOutcome(each.filter, len(each.states)) for each in found),
            nearest=_nearest((by_capacity[-1:] or found)[0]) if found else None,
            pool=pool,
        )


def _nearest(refused: RefusedPools) -> NearestMiss:
    """Return the pool that came closest to a request among those that a filter refused; there is at least one."""
    filter_name, states, properties = refused
    state = states[0]
    if filter_name == CAPACITY:
        state = max(states, key=lambda each: capacity_rejection.headroom(each, properties))
    return NearestMiss(state.backend_id, filter_name, REASONS.reason(filter_name, state, properties))
