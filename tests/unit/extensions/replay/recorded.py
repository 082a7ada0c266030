# SPDX-License-Identifier: Apache-2.0
"""A scheduler that writes a decision log, and the replay of the log."""

import pathlib
from types import SimpleNamespace
from typing import Any

from tests.unit.scheduler.world import StoragePool, World
from tonnage.capacity.arithmetic import Calculation
from tonnage.extensions.replay.decision_log import DecisionLog, LogFile
from tonnage.extensions.replay.replay import Replay, Replayed
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.rpc.messages import CreateGroup
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain


class Recorded:
    """A world whose scheduler writes a log."""

    def __init__(self, path: pathlib.Path, pools: dict[str, StoragePool]) -> None:
        self.path = path
        self.now = 0.0
        self.world = World(pools).started()
        self.file = LogFile(str(path))
        self.log = DecisionLog(self.file, "here", self.world.hosts, lambda: self.now)
        self.begin()

    def begin(self) -> None:
        self.world.placer.observers = [self.log]

    def group(self, *sizes: int) -> Any:
        messages = [self.world.create_message(size) for size in sizes]
        return self.world.place([CreateGroup(request_id=self.world.request_id(), volumes=messages)])[0]

    def lines(self) -> list[bytes]:
        return self.path.read_bytes().splitlines()


def thick(**free: int) -> dict[str, StoragePool]:
    return {name: StoragePool(room, 1.0, thin=False, thick=True) for name, room in free.items()}


def rules(multiplier: float = 1.0, calculation: Calculation = Calculation.CINDER) -> Rules:
    conf = SimpleNamespace(over_provisioning_calculation=calculation, capacity_weight_multiplier=multiplier)
    chain = FilterChain([CapacityFilter(conf)], calculation)
    return Rules(chain, WeigherChain([CapacityWeigher(conf)]), calculation)


def played(lines: list[bytes], by: Rules | None = None, ratio: float | str = 20.0) -> list[Replayed]:
    return list(Replay(by or rules(), ratio, 60.0).play(lines))
