# SPDX-License-Identifier: Apache-2.0
"""The optimum of a plan by integer programming, with HiGHS.

The program knows the places of all volumes at the end, and neither the order of the moves nor what is between. So it
copies at most as much as the best plan, and may find places that no sequence of moves reaches.
"""

import itertools
import math
from collections.abc import Mapping

import highspy
from moves_cloud import Cloud, CloudPool


class Program:
    """The places of volumes at the end: a variable for each volume and each pool that is suitable."""

    def __init__(self, cloud: Cloud, seconds: float = 20.0) -> None:
        self._cloud = cloud
        self._solver = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("time_limit", seconds)
        self._solver.setOptionValue("mip_rel_gap", 0.0)
        self._places: dict[tuple[str, str], highspy.highs.highs_var] = {}
        self._new: Mapping[str, highspy.highs.highs_var] = {}
        self._pools = {pool.name: pool for pool in cloud.pools}
        for volume in cloud.volumes:
            suitable = [pool.name for pool in cloud.pools if pool.name == volume.pool or volume.may_be_in(pool)]
            for name in suitable:
                self._places[volume.id, name] = self._solver.addBinary()
            self._solver.addConstr(sum(self._places[volume.id, name] for name in suitable) == 1)

    def leave(self, pools: list[str]) -> None:
        """Let no volume be in these pools at the end."""
        for (_, name), place in self._places.items():
            if name in pools:
                self._solver.addConstr(place == 0)

    def limit(self, pool: str, promised: float) -> None:
        """Limit the promises of a pool at the end."""
        self._solver.addConstr(self._promised(pool) <= promised)

    def add(self, size: int, zone: str) -> None:
        """Add a new volume, which is in one pool of the zone at the end."""
        self._new = {pool.name: self._solver.addBinary() for pool in self._cloud.pools if zone in ("", pool.zone)}
        self._size = size
        self._solver.addConstr(sum(self._new.values()) == 1)

    def fewest_gib(self) -> float | None:
        """Return the fewest GiB to copy; None if there are no such places."""
        for pool in self._cloud.pools:
            self._bound(pool)
        copied = sum(volume.size * (1 - self._places[volume.id, volume.pool]) for volume in self._cloud.volumes)
        self._solver.minimize(copied)
        status = self._solver.getModelStatus()
        if status == highspy.HighsModelStatus.kOptimal:
            return round(self._solver.getInfo().objective_function_value, 6)
        if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
            return None
        raise RuntimeError(f"the solver has ended with {status}")

    def _promised(self, pool: str) -> object:
        sizes = [
            volume.size * self._places[volume.id, pool]
            for volume in self._cloud.volumes
            if (volume.id, pool) in self._places
        ]
        new = [self._size * self._new[pool]] if pool in self._new else []
        return sum(itertools.chain(sizes, new))

    def _bound(self, pool: CloudPool) -> None:
        """Keep a pool within both bounds."""
        self._solver.addConstr(self._promised(pool.name) <= max(pool.limit, pool.promised))
        written = [
            volume.size * self._places[volume.id, pool.name]
            for volume in self._cloud.volumes
            if volume.pool != pool.name and (volume.id, pool.name) in self._places
        ]
        if not pool.thin:
            written += [
                -volume.size * (1 - self._places[volume.id, pool.name])
                for volume in self._cloud.volumes
                if volume.pool == pool.name
            ]
            written += [self._size * self._new[pool.name]] if pool.name in self._new else []
        if written:
            self._solver.addConstr(sum(written) <= max(0.0, pool.total - pool.used))


class StagedProgram:
    """Moves in stages, each volume at most once: a stage relies on the room that earlier stages have freed.

    A plan with ``stages - 1`` levels of moves that make room for others exists exactly if the program has a solution.
    """

    def __init__(self, cloud: Cloud, stages: int, seconds: float = 120.0) -> None:
        self._cloud, self._stages = cloud, stages
        self._solver = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("time_limit", seconds)
        self._moves: dict[tuple[str, str, int], highspy.highs.highs_var] = {}
        self._new: Mapping[str, highspy.highs.highs_var] = {}
        self._new_size = 0
        self._limits: dict[str, float] = {}
        self._sizes = {volume.id: volume.size for volume in cloud.volumes}
        self._homes = {volume.id: volume.pool for volume in cloud.volumes}
        for volume in cloud.volumes:
            targets = [pool.name for pool in cloud.pools if pool.name != volume.pool and volume.may_be_in(pool)]
            for place in itertools.product(targets, range(stages)):
                self._moves[volume.id, *place] = self._solver.addBinary()
            if targets:
                own = [move for (volume_id, *_), move in self._moves.items() if volume_id == volume.id]
                self._solver.addConstr(sum(own) <= 1)

    def leave(self, pools: list[str]) -> None:
        """Let no volume be in these pools at the end."""
        for pool in pools:
            self.limit(pool, 0)

    def limit(self, pool: str, promised: float) -> None:
        """Limit the promises of a pool at the end."""
        self._limits[pool] = promised

    def add(self, size: int, zone: str) -> None:
        """Add a new volume, for which there is room in a pool of the zone after the last stage."""
        self._new = {pool.name: self._solver.addBinary() for pool in self._cloud.pools if zone in ("", pool.zone)}
        self._new_size = size
        self._solver.addConstr(sum(self._new.values()) == 1)

    def is_possible(self) -> bool:
        """Return whether there are such moves. Raises RuntimeError if the solver takes too long."""
        for pool in self._cloud.pools:
            self._bound(pool)
        self._solver.minimize(sum(self._moves.values()))
        status = self._solver.getModelStatus()
        if status == highspy.HighsModelStatus.kOptimal:
            return True
        if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
            return False
        raise RuntimeError(f"the solver has ended with {status}")

    def _sum(self, pool: str, stages: int, *, into: bool) -> object:
        return sum(
            self._sizes[volume_id] * move
            for (volume_id, target, stage), move in self._moves.items()
            if stage < stages and (target if into else self._homes[volume_id]) == pool
        )

    def _bound(self, pool: CloudPool) -> None:
        """Keep a pool within both bounds in each stage that moves volumes into it, and within its limit at the end."""
        name = pool.name
        rooms = [(max(0.0, pool.limit - pool.promised), True), (max(0.0, pool.total - pool.used), not pool.thin)]
        is_target = any(target == name for _, target, _ in self._moves)
        for stage, (room, is_freed) in itertools.product(range(self._stages), rooms):
            if is_target:
                freed = self._sum(name, stage, into=False) if is_freed else 0
                self._solver.addConstr(self._sum(name, stage + 1, into=True) - freed <= room)
        change = self._sum(name, self._stages, into=True) - self._sum(name, self._stages, into=False)
        new = self._new_size * self._new[name] if name in self._new else 0
        if not isinstance(change + new, int):
            limit = min(self._limits.get(name, math.inf), max(pool.limit, pool.promised))
            self._solver.addConstr(change + new <= limit - pool.promised)
            if name in self._new and not pool.thin:
                self._solver.addConstr(change + new <= pool.total - pool.used)
