# SPDX-License-Identifier: Apache-2.0
"""The quota left for the requests of one transaction, in order of arrival; each request counts for the next ones.

Pure: the current usage and the limits are arguments.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tonnage.capacity.decision import Excess
from tonnage.quotas import limits
from tonnage.quotas.limits import Item, Limits, Resource, Scope

_PER_VOLUME = Item(Resource.PER_VOLUME_GIGABYTES)


class QuotaChanged(Exception):
    """The usage that a decision read is outdated, and nothing may be booked. The decision must read it again.

    ``missing_counters`` are the scopes without a counter row: these rows must be inserted before anything is locked.
    """

    def __init__(self, reason: str, missing_counters: Iterable[Scope] = ()) -> None:
        self.missing_counters = frozenset(missing_counters)
        super().__init__(reason)


class Usage(NamedTuple):
    """A number of volumes and their size in GiB."""

    volumes: int = 0
    gigabytes: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(self.volumes + other.volumes, self.gigabytes + other.gigabytes)

    def of(self, resource: Resource) -> int:
        """Return the amount of a counted resource."""
        return self.volumes if resource is Resource.VOLUMES else self.gigabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The quota that one volume requires in its project.

    ``size_gb`` is the new size of the volume, 0 if it stays the same. ``new`` is False for a volume that only changes
    its type: it counts for the new type only.
    """

    project_id: str
    user_id: str
    takes: Usage
    volume_type_id: str = ""
    volume_type: str = ""
    size_gb: int = 0
    new: bool = True

    def scopes(self) -> list[Scope]:
        """Return all scopes in which the volume counts."""
        types = [""] if self.new else []
        if self.volume_type_id:
            types.append(self.volume_type_id)
        users = [""] + ([self.user_id] if self.user_id else [])
        return [Scope(self.project_id, user, type_id) for type_id in types for user in users]


def limited_demands(quota_limits: Limits, demands: Iterable[Demand]) -> dict[Scope, Usage]:
    """Return the sums of demands by scope, for the scopes with a limit.

    If volumes or gigabytes are limited in a scope, both are returned: a counter row is trusted as a whole.
    """
    total: dict[Scope, Usage] = {}
    for demand in demands:
        for scope in demand.scopes():
            if any(quota_limits.at(scope, resource) >= 0 for resource in limits.COUNTED):
                total[scope] = total.get(scope, Usage()).plus(demand.takes)
    return total


def scopes_with_room(quota_limits: Limits, used: Mapping[Scope, Usage], increase: Mapping[Scope, Usage]) -> set[Scope]:
    """Return the scopes in ``used`` whose usage may grow by ``increase``.

    A demand of 0 always fits, even if the usage is over the limit.
    """
    return {
        scope
        for scope, usage in used.items()
        if all(
            increase[scope].of(resource) <= 0
            or not 0 <= quota_limits.at(scope, resource) < usage.of(resource) + increase[scope].of(resource)
            for resource in limits.COUNTED
        )
    }


@dataclass(frozen=True, slots=True)
class ReservedQuota:
    """The limits, and the usage of every scope with a limit when it was read.

    ``external`` is the part of the usage, in GiB, that is outside the ledger's volumes.
    """

    limits: Limits
    used: Mapping[Scope, Usage] = field(default_factory=dict)
    external: Mapping[Scope, int] = field(default_factory=dict)


@dataclass(slots=True)
class QuotaBudget:
    """The part of a reserved quota that is left for further requests.

    ``taken`` has the sums taken so far, by limited scope.
    """

    reserved: ReservedQuota
    taken: dict[Scope, Usage] = field(default_factory=dict, init=False)

    def excess(self, demands: Sequence[Demand]) -> Excess | None:
        """Return the first limit that a set of volumes would exceed, None if all of them fit."""
        quota_limits, of_same_request = self.reserved.limits, dict[Scope, Usage]()
        for demand in demands:
            largest = quota_limits.of_user(demand.project_id, demand.user_id, _PER_VOLUME)
            if 0 <= largest < demand.size_gb:
                return Excess(_PER_VOLUME.resource, largest, 0, demand.size_gb)
            if (excess := self._over_limit(demand, of_same_request)) is not None:
                return excess
            for scope, takes in limited_demands(quota_limits, [demand]).items():
                of_same_request[scope] = of_same_request.get(scope, Usage()).plus(takes)
        return None

    def take(self, demands: Collection[Demand]) -> None:
        """Count the demands of volumes that have been placed."""
        for scope, takes in limited_demands(self.reserved.limits, demands).items():
            self.taken[scope] = self.taken.get(scope, Usage()).plus(takes)

    def _over_limit(self, demand: Demand, of_same_request: Mapping[Scope, Usage]) -> Excess | None:
        for resource in (Resource.GIGABYTES, Resource.VOLUMES):
            demanded = demand.takes.of(resource)
            for scope in demand.scopes():
                limit = self.reserved.limits.at(scope, resource)
                if limit < 0 or demanded <= 0:
                    continue
                if scope not in self.reserved.used:
                    # The request has changed while the decision waited for locks.
                    raise QuotaChanged(f"usage of {scope} was not looked at")
                usages = (
                    usage_by_scope.get(scope, Usage())
                    for usage_by_scope in (self.reserved.used, self.taken, of_same_request)
                )
                used = sum(usage.of(resource) for usage in usages)
                if used + demanded > limit:
                    item = Item(resource, scope.volume_type_id)
                    name = limits.name(item, {demand.volume_type_id: demand.volume_type})
                    return Excess(name, limit, used, demanded)
        return None
