# SPDX-License-Identifier: Apache-2.0
"""What requests of one transaction may take, in order of arrival, each seeing what those before it took.

Pure: what is used already and what the limits are is given.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tonnage.capacity.decision import Excess
from tonnage.quotas import limits
from tonnage.quotas.limits import Item, Limits, Resource, Scope


class QuotaTaken(Exception):
    """What was seen of a quota is no longer so, and nothing may be booked. It has to be looked at again.

    ``uncounted`` are those that there are no counters of yet: these have to be made before anything is locked.
    """

    def __init__(self, reason: str, uncounted: Iterable[Scope] = ()) -> None:
        self.uncounted = frozenset(uncounted)
        super().__init__(reason)


class Used(NamedTuple):
    """How much counts, or is to."""

    volumes: int = 0
    gigabytes: int = 0

    def plus(self, other: "Used") -> "Used":
        """Return both together."""
        return Used(self.volumes + other.volumes, self.gigabytes + other.gigabytes)

    def of(self, resource: Resource) -> int:
        """Return what of a counted resource it is."""
        return self.volumes if resource is Resource.VOLUMES else self.gigabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one volume is to take of a project's quota.

    ``size_gb`` is the size that the volume is to have, 0 where it keeps the one that it has. ``new`` is false for a
    volume that only gets another type: then it counts for that one alone.
    """

    project_id: str
    user_id: str
    takes: Used
    volume_type_id: str = ""
    volume_type: str = ""
    size_gb: int = 0
    new: bool = True

    def scopes(self) -> list[Scope]:
        """Return everything that it counts in."""
        types = [""] if self.new else []
        if self.volume_type_id:
            types.append(self.volume_type_id)
        users = [""] + ([self.user_id] if self.user_id else [])
        return [Scope(self.project_id, user, kind) for kind in types for user in users]


def binding(found: Limits, demands: Iterable[Demand]) -> dict[Scope, Used]:
    """Return what demands take, all together, of what is limited. What has no limit is not in it.

    Where volumes or gigabytes are limited both are: a counter is believed as a whole.
    """
    total: dict[Scope, Used] = {}
    for demand in demands:
        for scope in demand.scopes():
            if any(found.at(scope, each) >= 0 for each in limits.COUNTED):
                total[scope] = total.get(scope, Used()).plus(demand.takes)
    return total


def fits(found: Limits, scope: Scope, used: Used, more: Used) -> bool:
    """Tell whether there is room for more. What takes nothing fits also where there is too much already."""
    return all(
        more.of(each) <= 0 or not 0 <= found.at(scope, each) < used.of(each) + more.of(each) for each in limits.COUNTED
    )


class Allowance:
    """What may still be taken. ``used`` has the usage of every scope that is limited.

    ``beyond`` is what of it, in GiB, is used beside the ledger's volumes.
    """

    def __init__(self, found: Limits, used: Mapping[Scope, Used], beyond: Mapping[Scope, int] | None = None) -> None:
        self.limits = found
        self.beyond = beyond or {}
        self._used = used
        #: What has been taken of what is limited.
        self.taken: dict[Scope, Used] = {}

    def excess(self, demands: Sequence[Demand]) -> Excess | None:
        """Return what of a quota volumes would go beyond that come all or none, or None."""
        ahead: dict[Scope, Used] = {}
        for demand in demands:
            found = self._too_large(demand) or self._too_much(demand, ahead)
            if found is not None:
                return found
            self._add(ahead, demand)
        return None

    def take(self, demands: Collection[Demand]) -> None:
        """Count what has been given a place."""
        for demand in demands:
            self._add(self.taken, demand)

    def _too_large(self, demand: Demand) -> Excess | None:
        item = Item(Resource.PER_VOLUME_GIGABYTES)
        limit = self.limits.of_user(demand.project_id, demand.user_id, item)
        if 0 <= limit < demand.size_gb:
            return Excess(item.resource, limit, 0, demand.size_gb)
        return None

    def _too_much(self, demand: Demand, ahead: Mapping[Scope, Used]) -> Excess | None:
        for resource in (Resource.GIGABYTES, Resource.VOLUMES):
            asked = demand.takes.of(resource)
            for scope in demand.scopes():
                limit = self.limits.at(scope, resource)
                if limit < 0 or asked <= 0:
                    continue
                so_far = (self._of(scope), self.taken.get(scope, Used()), ahead.get(scope, Used()))
                used = sum(each.of(resource) for each in so_far)
                if used + asked > limit:
                    item = Item(resource, scope.volume_type_id)
                    name = limits.name(item, {demand.volume_type_id: demand.volume_type})
                    return Excess(name, limit, used, asked)
        return None

    def _add(self, total: dict[Scope, Used], demand: Demand) -> None:
        for scope in binding(self.limits, [demand]):
            total[scope] = total.get(scope, Used()).plus(demand.takes)

    def _of(self, scope: Scope) -> Used:
        if scope not in self._used:
            # A request is another one than it seemed before others had to be waited for.
            raise QuotaTaken(f"usage of {scope} was not looked at")
        return self._used[scope]
