# SPDX-License-Identifier: Apache-2.0
"""Small clouds to plan moves in: pools with volumes, in a table and in a ledger."""

import uuid
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa

from tests.unit.scheduler import ledgers
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool import Pool, backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolumes
from tonnage.extensions.moves.planning.plan import MovePlan
from tonnage.extensions.moves.planning.pool_model import PoolModel
from tonnage.filters.availability_zone import AvailabilityZoneFilter
from tonnage.filters.capabilities import CapabilitiesFilter
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.filters.retry import RetryFilter
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain


class Cloud:
    """Pools by their names, each with the sizes of its volumes."""

    def __init__(self, calculation: Calculation = Calculation.STANDARD, engine: sa.Engine | None = None) -> None:
        """Begin without pools. The ledger is one of its own, or is emptied."""
        self.engine = engine or ledgers.in_memory(self)
        with self.engine.begin() as connection:
            for table in (models.Volume, models.Pool, models.Backend):
                connection.execute(sa.delete(table))
        self.database = database.Database(self.engine)
        conf = SimpleNamespace(over_provisioning_calculation=calculation, capacity_weight_multiplier=1.0)
        filters = [RetryFilter(conf), AvailabilityZoneFilter(conf), CapacityFilter(conf), CapabilitiesFilter(conf)]
        self.rules = Rules(FilterChain(filters, calculation), WeigherChain([CapacityWeigher(conf)]), calculation)
        self.table = PoolTable()
        self.ids: dict[str, list[str]] = {}

    def add(
        self,
        name: str,
        total: float,
        sizes: Sequence[int] = (),
        *,
        thin: bool = False,
        ratio: float = 1.0,
        written: float | None = None,
        zone: str = "nova",
        volume: Mapping[str, Any] | None = None,
        **capabilities: Any,
    ) -> "Cloud":
        """Add a pool of ``total`` GiB that is ``h@<letter>#p`` for the name ``<letter>``, and its volumes.

        ``written`` is the share of the volumes that is used physically: all, unless given.
        """
        full = f"h@{name}#p"
        used = sum(sizes) * (1.0 if written is None else written)
        self.table.put(
            Pool(
                name=full,
                total=total,
                free=total - used,
                provisioned=sum(sizes),
                allocated=sum(sizes),
                ratio=ratio,
                thin=thin,
                thick=not thin,
                up=True,
                enabled=True,
                responsive=True,
                availability_zone=zone,
                capabilities=capabilities,
            )
        )
        with self.engine.begin() as connection:
            backend = connection.execute(
                sa.insert(models.Backend).values(name=backend_of(full), availability_zone=zone)
            ).inserted_primary_key[0]
            pool = connection.execute(
                sa.insert(models.Pool).values(name=full, backend_id=backend)
            ).inserted_primary_key[0]
            self.ids[name] = [str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}-{number}")) for number in range(len(sizes))]
            for volume_id, size in zip(self.ids[name], sizes, strict=True):
                values = {
                    "id": volume_id,
                    "project_id": "demo",
                    "size_gb": size,
                    "status": "available",
                    "pool_id": pool,
                    "provisioning": "thin" if thin else "thick",
                    **(volume or {}),
                }
                connection.execute(sa.insert(models.Volume).values(**values))
        return self

    def model(self) -> PoolModel:
        """Return the model of the pools, as a plan begins with it."""
        return PoolModel(self.table.snapshot(), self.rules, PlacedVolumes(self.database))

    def plan(self, goal: str, **arguments: Any) -> MovePlan:
        """Return the plan for a goal."""
        plan = goal_loader.load(goal, arguments).plan(self.model())
        self.check(plan)
        return plan

    def check(self, plan: MovePlan) -> None:
        """Play the moves from outside: no pool passes a bound, or gets further above one that it is over already."""
        pools = {name: self.table.row(index) for index, name in enumerate(self.table.names)}
        promised = {name: pool.provisioned for name, pool in pools.items()}
        used = {name: pool.total - pool.free for name, pool in pools.items()}
        place = {volume: f"h@{name}#p" for name, ids in self.ids.items() for volume in ids}
        for number, move in enumerate(plan.moves, start=1):
            assert move.number == number
            assert place[move.volume_id] == move.source != move.target
            promised[move.target] += move.size_gb
            used[move.target] += move.size_gb
            target = pools[move.target]
            assert used[move.target] <= target.total + 1e-6
            if target.thin:
                assert promised[move.target] <= target.total * target.ratio + 1e-6
            promised[move.source] -= move.size_gb
            if not pools[move.source].thin:
                used[move.source] -= move.size_gb
            place[move.volume_id] = move.target
            for level, name in ((move.target_level, move.target), (move.source_level, move.source)):
                # The levels of the goal fit count the volumes that it makes room for, where an earlier one goes.
                lack = level.promised_gb - round(promised[name], 2)
                assert lack == 0 or (lack > 0 and plan.goal.startswith("make room"))
        assert len({move.volume_id for move in plan.moves}) == len(plan.moves), "a volume moves twice"
        self.places, self.promised = place, promised


def moves_of(plan: MovePlan) -> list[tuple[int, str, str]]:
    """Return the moves in short: size, from, to, each pool by its letter."""
    return [(move.size_gb, _short(move.source), _short(move.target)) for move in plan.moves]


def _short(pool: str) -> str:
    return pool.partition("@")[2].partition("#")[0]
