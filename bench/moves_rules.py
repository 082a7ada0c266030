# SPDX-License-Identifier: Apache-2.0
"""The rules of other programs, on the clouds of the benchmark of plans.

Watcher's are those of its strategies ``zone_migration`` and ``storage_capacity_balance``, as their files have them at
https://opendev.org/openstack/watcher (``watcher/decision_engine/strategy/strategies``, commit ec06744bffd4 of August
2026). A move to a pool that is not suitable for the volume's type or zone is one that Cinder refuses.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from moves_cloud import Cloud, CloudPool, CloudVolume

#: A volume, and the pool that it moves to.
Move = tuple[CloudVolume, str]


class Levels:
    """The promises and the data of pools while moves are made one after another.

    A copy is counted as written in full, and a thin volume frees the average share of the written data of its pool.
    """

    def __init__(self, cloud: Cloud) -> None:
        self.pools = {pool.name: pool for pool in cloud.pools}
        self.promised = {pool.name: float(pool.promised) for pool in cloud.pools}
        self.used = {pool.name: pool.used for pool in cloud.pools}
        self._written = {
            pool.name: pool.used / pool.promised if pool.thin and pool.promised else 1.0 for pool in cloud.pools
        }

    def move(self, volume: CloudVolume, target: str) -> bool:
        """Make a move, and return whether it takes its target above a bound, or further above one."""
        self.promised[target] += volume.size
        self.used[target] += volume.size
        self.promised[volume.pool] -= volume.size
        self.used[volume.pool] -= volume.size * self._written[volume.pool]
        pool = self.pools[target]
        return self.promised[target] > pool.limit + 1e-6 or self.used[target] > pool.total + 1e-6

    def room(self, pool: CloudPool) -> float:
        """Return the largest volume that a pool takes within both bounds."""
        return min(pool.limit - self.promised[pool.name], pool.total - self.used[pool.name])

    def is_over(self, pool: CloudPool, threshold: float) -> bool:
        """Return whether at least a share of a pool is used physically, as Watcher sees it."""
        return self.used[pool.name] >= pool.total * threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of moves: GiB moved, moves that passed a bound, and the GiB or pools that are left.

    ``unmoved`` are the volumes that are left in a pool to be emptied, or the pools that are still over a threshold.
    """

    moved_gb: int
    passed: int
    unmoved: int


def follow(cloud: Cloud, moves: Iterable[Move]) -> tuple[Levels, int, int, set[str]]:
    """Make moves; return the levels, the GiB moved, the moves that passed a bound, and the ids of the moved volumes."""
    levels, moved_gb, passed, moved = Levels(cloud), 0, 0, set()
    for volume, target in moves:
        if not volume.may_be_in(levels.pools[target]):
            continue
        passed += levels.move(volume, target)
        moved_gb += volume.size
        moved.add(volume.id)
    return levels, moved_gb, passed, moved


def emptied(cloud: Cloud, source: str, moves: Iterable[Move]) -> Outcome:
    """Return the outcome of moves that shall empty a pool."""
    _, moved_gb, passed, moved = follow(cloud, moves)
    unmoved = sum(volume.pool == source and volume.id not in moved for volume in cloud.volumes)
    return Outcome(moved_gb=moved_gb, passed=passed, unmoved=unmoved)


def relieved(cloud: Cloud, threshold: float, moves: Iterable[Move]) -> Outcome:
    """Return the outcome of moves that shall bring all pools below a share of physical use."""
    levels, moved_gb, passed, _ = follow(cloud, moves)
    unmoved = sum(levels.is_over(pool, threshold) for pool in cloud.pools)
    return Outcome(moved_gb=moved_gb, passed=passed, unmoved=unmoved)


def zone_migration(cloud: Cloud, source: str) -> Iterator[Move]:
    """Yield the moves of Watcher's ``zone_migration``: all volumes go to the pool that the operator names.

    It compares no capacities. The operator is taken to name the pool with the most free space. An audit starts two
    moves for a pool; here it is repeated until all volumes had their turn.
    """
    targets = (pool for pool in cloud.pools if pool.name != source)
    target = max(targets, key=lambda pool: (pool.total - pool.used, pool.name))
    yield from ((volume, target.name) for volume in cloud.volumes if volume.pool == source)


def capacity_balance(cloud: Cloud, threshold: float) -> Iterator[Move]:
    """Yield the moves of Watcher's ``storage_capacity_balance``.

    Pools that use at least the threshold give volumes away, the smallest first, until by the sizes of these they are
    below. The pool with the largest share of free space takes a volume if it stays below the threshold, and if its
    allocated capacity of the beginning allows it. A volume with a type is only retyped, to a type of the target's
    backend name with the same other extra specs: the types of these clouds name no backend, so it stays.
    """
    free = {pool.name: pool.total - pool.used for pool in cloud.pools}
    targets = [pool for pool in cloud.pools if pool.used < pool.total * threshold]
    for source in (pool for pool in cloud.pools if pool.used >= pool.total * threshold):
        used = source.used
        for volume in sorted((v for v in cloud.volumes if v.pool == source.name), key=lambda v: v.size):
            if volume.media:
                continue
            targets.sort(key=lambda pool: free[pool.name] / pool.total)
            for target in reversed(targets):
                rest = free[target.name] - volume.size
                is_allocated_over = target.total * target.ratio < target.promised + volume.size
                if not is_allocated_over and rest > (1 - threshold) * target.total:
                    free[target.name] = rest
                    used -= volume.size
                    yield volume, target.name
                    break
            if used < threshold * source.total:
                break


def smallest_first(cloud: Cloud, sources: Sequence[str], threshold: float | None) -> Iterator[Move]:
    """Yield the moves of the rule "smallest volume first, into the pool with the most room", within both bounds.

    With a threshold a source gives volumes away until it uses less, and nothing moves to where it would be reached.
    """
    levels = Levels(cloud)
    for source in sources:
        for volume in sorted((v for v in cloud.volumes if v.pool == source), key=lambda v: (v.size, v.id)):
            if threshold is not None and not levels.is_over(levels.pools[source], threshold):
                break
            rooms = [
                (_room(levels, pool, threshold), pool.name)
                for pool in cloud.pools
                if pool.name not in sources and volume.may_be_in(pool)
            ]
            room, target = max(rooms, default=(0.0, ""))
            if room >= volume.size:
                levels.move(volume, target)
                yield volume, target


def _room(levels: Levels, pool: CloudPool, threshold: float | None) -> float:
    room = levels.room(pool)
    return room if threshold is None else min(room, pool.total * threshold - levels.used[pool.name] - 1e-6)
