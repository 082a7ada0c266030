# SPDX-License-Identifier: Apache-2.0
"""Why a node does not take volumes, in words with numbers and as data."""

import datetime
import enum
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tonnage.capacity.topology.node_packing import Ints
from tonnage.k8s.capacity.quantities import render
from tonnage.k8s.fit.node_decision import Decision, Sought

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


#: Where room that somebody gives back changes nothing.
UNRESOLVABLE = frozenset({Code.NO_STORAGE, Code.UNREACHABLE, Code.EXPIRED, Code.UNKNOWN})


class Reason(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class _Contention:
    """Volumes that are in each other's way, in words and by name, and the pools of their storages that nodes reach."""

    words: str
    volumes: tuple[str, ...]
    storages: tuple[tuple[Sought, Sequence["memoryview[int]"]], ...]


class Reasons:
    """Answers for the nodes that a decision refused; often for thousands of them, which have much in common."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision
        supply = decision.supply
        self._limit, self._capacity = _numbers(supply.limit), _numbers(supply.capacity)
        self._group, self._left = _numbers(supply.group), _numbers(supply.left())
        #: For each volume the pools that nodes reach, in columns.
        columns = {id(one.slots): [_numbers(each) for each in one.slots.T] for one in decision.demands}
        self._columns = [columns[id(one.slots)] for one in decision.demands]
        alone = decision.fit.alone
        #: For each node the first volume that it would not take if it were the only one.
        self._first = _numbers(alone.argmin(axis=1) if decision.demands else np.empty(0, dtype=np.int64))
        self._asked = [
            f"volume {each.volume.name!r} of {render(each.size)} ({_kind(each)})" for each in decision.sought
        ]
        self._contentions: dict[bytes, _Contention] = {}

    def why(self, node: int) -> Reason:
        """Return why a node was refused."""
        decision = self._decision
        if decision.refused:
            one = decision.refused[0]
            text = f"driver {one.figures.name} has no storage for {_kind(one)} and no <fallback>"
            return Reason(Code.NO_STORAGE, text, (one.volume.name,))
        first = self._first[node]
        return self._together(node) if decision.fit.alone[node, first] else self._alone(first, node)

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
                    left=self._left[pool] if known else None,
                    largest=int(each.figures.limit[row]) if known else None,
                    expired=bool(each.figures.expires[row] <= self._decision.now),
                )
        return list(found.values())

    def _pools(self, volume: int, node: int) -> list[int]:
        """Return the pools that a node reaches for a volume."""
        return [pool for column in self._columns[volume] if (pool := column[node]) >= 0]

    def _alone(self, volume: int, node: int) -> Reason:
        """Return why a volume does not fit even if it is alone."""
        each, pools = self._decision.sought[volume], self._pools(volume, node)
        about = (each.volume.name,)
        # What has expired, or is not known, has no limit.
        rooms = [self._room(each, pool) for pool in pools if self._limit[pool] >= 0]
        if rooms:
            return Reason(Code.TOO_LARGE, f"{self._asked[volume]}: {_listed(rooms)}", about)
        if not pools:
            text = f"no pool of {each.figures.name} for {_kind(each)} is reached from this node"
            return Reason(Code.UNREACHABLE, text, about)
        live = [pool for pool in pools if each.figures.expires[pool - each.offset] > self._decision.now]
        if not live:
            expired = _listed([_expiry(each, pool) for pool in pools])
            return Reason(Code.EXPIRED, f"{_kind(each)}: {expired}", about)
        names = _listed([_name(each, pool) for pool in live])
        return Reason(Code.UNKNOWN, f"{_kind(each)}: the capacity of {names} is not known", about)

    def _together(self, node: int) -> Reason:
        contention = self._contention(node)
        # What draws on the same disks has the same name often enough, in another storage.
        drawn: dict[int, list[str]] = {}
        for each, columns in contention.storages:
            for column in columns:
                pool = column[node]
                if pool >= 0 and self._limit[pool] >= 0:
                    drawn.setdefault(self._group[pool], []).append(self._room(each, pool))
        told = _listed([" and, of the same disks, ".join(rooms) for rooms in drawn.values()])
        exact = bool(self._decision.fit.exact[node])
        doubt = "" if exact else "; there are too many ways to place them to try all"
        return Reason(Code.NOT_TOGETHER, f"{contention.words}, do not fit: {told}{doubt}", contention.volumes, exact)

    def _contention(self, node: int) -> _Contention:
        """Return the volumes that are in each other's way on a node; on most nodes they are the same ones."""
        contending, width = self._contending
        key = contending[node * width : (node + 1) * width]
        found = self._contentions.get(key)
        if found is None:
            bits = np.unpackbits(np.frombuffer(key, dtype=np.uint8), count=len(self._decision.sought))
            volumes = np.nonzero(bits)[0].tolist()
            sought = [self._decision.sought[volume] for volume in volumes]
            sizes = " + ".join(f"{each.volume.name!r} {render(each.size)}" for each in sought)
            storages = {
                id(self._columns[volume]): (self._decision.sought[volume], self._columns[volume])
                for volume in volumes[::-1]
            }
            found = self._contentions[key] = _Contention(
                f"volumes {sizes}, together {render(sum(each.size for each in sought))}",
                tuple(each.volume.name for each in sought),
                tuple(storages.values())[::-1],
            )
        return found

    @functools.cached_property
    def _contending(self) -> tuple[bytes, int]:
        """For each node a bit for each volume that reaches something which another one reaches too, and their bytes.

        The rest is in nobody's way.
        """
        demands, group = self._decision.demands, self._decision.supply.group
        volumes: dict[int, list[int]] = {}
        for volume, demand in enumerate(demands):
            volumes.setdefault(id(demand.slots), []).append(volume)
        found = np.zeros((len(self._decision.nodes), len(demands)), dtype=np.bool_)
        reached = []
        for own in volumes.values():
            slots = demands[own[0]].slots
            reached.append((own, np.where(slots >= 0, group[slots], -1).T))
            if len(own) > 1:
                found[:, own] = np.any(slots >= 0, axis=1, keepdims=True)
        for (some, here), (others, there) in itertools.combinations(reached, 2):
            for one, other in itertools.product(here, there):
                found[:, some + others] |= np.reshape((one == other) & (one >= 0), (-1, 1))
        bits = np.packbits(found, axis=1)
        return bits.tobytes(), bits.shape[1]

    def _room(self, each: Sought, pool: int) -> str:
        capacity, limit, left = self._capacity[pool], self._limit[pool], self._left[pool]
        text = f"{_name(each, pool)} has {render(left)} left"
        if left != capacity:
            text += f" of {render(capacity)}"
        if 0 <= limit < capacity:
            text += f", largest volume {render(limit)}"
        return text


def _numbers(column: Ints) -> "memoryview[int]":
    """Return a column of which each number is Python's: most of the time would go into taking them out one by one."""
    return np.ascontiguousarray(column).data


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
