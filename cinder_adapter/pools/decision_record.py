# SPDX-License-Identifier: Apache-2.0
"""The verdicts of all filters during a decision, for its refusal."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal
from tonnage.cinder_adapter.pools import capacity_rejection

#: Returns the names of filters, each with the pools that it refused.
Verdicts = Callable[[], Iterable[tuple[str, Sequence[Any]]]]


class DecisionRecord:
    """The verdicts on a number of pools, by a version of the ledger's pools. They are counted only for a refusal."""

    def __init__(self, pools: int = 0, version: int = 0) -> None:
        self._pools = pools
        self.version = version
        self._verdicts: list[tuple[Verdicts, Mapping[str, Any]]] = []
        self._outcomes: list[FilterOutcome] = []
        self._nearest: NearestMiss | None = None
        self._doubtful = False

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

    @property
    def doubtful(self) -> bool:
        """Whether a pool was refused that has room if its figures contain the claims in flight already."""
        self._count()
        return self._doubtful

    def refusal(self, text: str, pool: str | None = None) -> Refusal:
        """Return the reason why no pool is left."""
        self._count()
        return Refusal(
            request=text, pools=self._pools, outcomes=tuple(self._outcomes), nearest=self._nearest, pool=pool
        )

    def _count(self) -> None:
        for verdicts, properties in self._verdicts:
            for name, refused in verdicts():
                if refused:
                    self._refused(name, refused, properties)
        self._verdicts.clear()

    def _refused(self, name: str, states: Sequence[Any], properties: Mapping[str, Any]) -> None:
        self._outcomes.append(FilterOutcome(name, len(states)))
        is_capacity = name == capacity_rejection.CAPACITY
        if self._nearest is None or is_capacity:
            self._nearest = capacity_rejection.nearest(name, states, properties)
        if is_capacity and capacity_rejection.may_be_counted_twice(states, properties):
            self._doubtful = True
