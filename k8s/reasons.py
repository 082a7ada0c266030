# SPDX-License-Identifier: Apache-2.0
"""Why a node does not take volumes, in words with numbers and as data."""

import collections
import datetime
import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tonnage.k8s.decisions import Decision
from tonnage.k8s.decisions import Sought
from tonnage.k8s.quantities import render

#: Pools that a sentence names; the rest are counted.
_NAMED = 3


class Code(enum.StrEnum):
    """What is wrong with a node."""

    NO_STORAGE = "NoStorage"
    UNREACHABLE = "Unreachable"
    EXPIRED = "Expired"
    UNKNOWN = "Unknown"
    TOO_LARGE = "TooLarge"
    NOT_TOGETHER = "NotTogether"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node was refused, and the volumes that this is about; ``exact`` is false if a way may have been missed."""

    code: Code
    message: str
    volumes: tuple[str, ...]
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRoom:
    """A pool that a node reaches for the volumes. ``left`` is what is not claimed of what it draws on.

    ``largest`` is the largest volume that its figures allow. Sizes are bytes, None if they are not known.
    """

    driver: str
    storage_class: str
    name: str
    capacity: int | None
    left: int | None
    largest: int | None
    expired: bool


class Reasons:
    """Answers for the nodes that a decision refused; often for thousands of them, which have much in common."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision
        supply = decision.supply
        # Python's numbers: most of the time would go into taking them out of columns one by one.
        self._limit: list[int] = supply.limit.tolist()
        self._capacity: list[int] = supply.capacity.tolist()
        self._group: list[int] = supply.group.tolist()
        self._measure: list[int] = supply.measure.tolist()
        self._free: list[int] = supply.room.tolist()
        slots = {id(one.slots): one.slots.tolist() for one in decision.demands}
        self._slots: list[list[list[int]]] = [slots[id(one.slots)] for one in decision.demands]
        self._sums: dict[tuple[int, ...], str] = {}
        #: For each node the first volume that it would not take if it were the only one, -1 for none.
        self._first: list[int] = []
        if decision.demands:
            alone = decision.fit.alone
            self._first = np.where(alone.all(axis=1), -1, alone.argmin(axis=1)).tolist()

    def why(self, node: int) -> Reason:
        """Return why a node was refused."""
        decision = self._decision
        if decision.refused:
            one = decision.refused[0]
            text = f"driver {one.figures.name} has no storage for {_kind(one)} and no <fallback>"
            return Reason(Code.NO_STORAGE, text, (one.volume.name,))
        first = self._first[node]
        if first >= 0:
            one = decision.sought[first]
            return Reason(*self._alone(one, self._pools(first, node)), (one.volume.name,))
        return self._together(node)

    def pools(self, node: int) -> list[PoolRoom]:
        """Return the pools that a node reaches for the volumes, each once."""
        found = {}
        for volume, each in enumerate(self._decision.sought):
            for pool in self._pools(volume, node):
                row = pool - each.offset
                storage_class, name = each.figures.keys[row]
                known = self._capacity[pool] >= 0
                found[pool] = PoolRoom(
                    driver=each.figures.name,
                    storage_class=storage_class,
                    name=name,
                    capacity=self._capacity[pool] if known else None,
                    left=self._left(pool) if known else None,
                    largest=int(each.figures.limit[row]) if known else None,
                    expired=bool(each.figures.expires[row] <= self._decision.now),
                )
        return list(found.values())

    def _pools(self, volume: int, node: int) -> list[int]:
        """Return the pools that a node reaches for a volume."""
        return [pool for pool in self._slots[volume][node] if pool >= 0]

    def _alone(self, each: Sought, pools: Sequence[int]) -> tuple[Code, str]:
        """Return why a volume does not fit even if it is alone."""
        if not pools:
            return Code.UNREACHABLE, f"no pool of {each.figures.name} for {_kind(each)} is reached from this node"
        live = [pool for pool in pools if each.figures.expires[pool - each.offset] > self._decision.now]
        if not live:
            return Code.EXPIRED, f"{_kind(each)}: {_listed([_expiry(each, pool) for pool in pools])}"
        known = [pool for pool in live if self._capacity[pool] >= 0]
        if not known:
            names = _listed([_name(each, pool) for pool in live])
            return Code.UNKNOWN, f"{_kind(each)}: the capacity of {names} is not known"
        rooms = _listed([self._room(each, pool) for pool in known])
        return Code.TOO_LARGE, f"volume {each.volume.name!r} of {render(each.size)} ({_kind(each)}): {rooms}"

    def _together(self, node: int) -> Reason:
        rows = [self._pools(volume, node) for volume in range(len(self._slots))]
        volumes = self._contending(rows)
        found: dict[int, Sought] = {}
        for volume in volumes:
            for pool in rows[volume]:
                if self._limit[pool] >= 0:
                    found.setdefault(pool, self._decision.sought[volume])
        # What draws on the same disks has the same name often enough, in another storage.
        drawn: dict[int, list[str]] = {}
        for pool, each in found.items():
            drawn.setdefault(self._group[pool], []).append(self._room(each, pool))
        told = _listed([" and, of the same disks, ".join(rooms) for rooms in drawn.values()])
        exact = bool(self._decision.fit.exact[node])
        doubt = "" if exact else "; there are too many ways to place them to try all"
        text = f"{self._sum(volumes)}, do not fit: {told}{doubt}"
        names = tuple(self._decision.sought[volume].volume.name for volume in volumes)
        return Reason(Code.NOT_TOGETHER, text, names, exact)

    def _contending(self, rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """Return the volumes that reach something which another one reaches too: the rest is in nobody's way."""
        reached = [{self._group[pool] for pool in pools} for pools in rows]
        times = collections.Counter(itertools.chain.from_iterable(reached))
        return tuple(volume for volume, groups in enumerate(reached) if any(times[group] > 1 for group in groups))

    def _sum(self, volumes: tuple[int, ...]) -> str:
        """Return the volumes with their sizes; most nodes have the same to say."""
        text = self._sums.get(volumes)
        if text is None:
            sought = [self._decision.sought[volume] for volume in volumes]
            sizes = " + ".join(f"{each.volume.name!r} {render(each.size)}" for each in sought)
            text = f"volumes {sizes}, together {render(sum(each.size for each in sought))}"
            self._sums[volumes] = text
        return text

    def _left(self, pool: int) -> int:
        """Return what is left of a pool, in its own measure: rounded down, as what is left has to be there."""
        group, capacity = self._group[pool], self._capacity[pool]
        measure, free = self._measure[group], max(0, self._free[group])
        return free if measure == capacity else free * capacity // max(measure, 1)

    def _room(self, each: Sought, pool: int) -> str:
        capacity, limit, left = self._capacity[pool], self._limit[pool], self._left(pool)
        text = f"{_name(each, pool)} has {render(left)} left"
        if left != capacity:
            text += f" of {render(capacity)}"
        if 0 <= limit < capacity:
            text += f", largest volume {render(limit)}"
        return text


def _name(each: Sought, pool: int) -> str:
    return f"pool {each.figures.keys[pool - each.offset][1]}"


def _expiry(each: Sought, pool: int) -> str:
    micros = int(each.figures.expires[pool - each.offset])
    at = datetime.datetime.fromtimestamp(micros // 10**6, datetime.UTC)
    return f"{_name(each, pool)} expired at {at:%Y-%m-%dT%H:%M:%SZ}"


def _kind(each: Sought) -> str:
    name = each.volume.storage_class
    return "inline ephemeral volumes" if name is None else f"storage class {name!r}"


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _NAMED
    return "; ".join(texts[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
