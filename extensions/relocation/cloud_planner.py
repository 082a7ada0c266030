# SPDX-License-Identifier: Apache-2.0
"""The planner for a cloud: the goals and the model of the extension ``moves`` on a copy of the cloud's pools."""

import datetime
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.planner import KEEP_FORECAST
from tonnage.extensions.moves.planning.plan import MovePlan, PlanQuery
from tonnage.extensions.moves.planning.pool_model import PoolModel
from tonnage.extensions.moves.records import plan_records
from tonnage.extensions.relocation import cloud_volumes, plan_choices
from tonnage.extensions.relocation.cinder_client import CinderClient, VolumeType
from tonnage.extensions.relocation.cloud_pools import Figures
from tonnage.extensions.relocation.cloud_volumes import CloudVolumes
from tonnage.extensions.relocation.plan_choices import Choices
from tonnage.ledger.db.database import Database
from tonnage.scheduler.requests.pool_selection import Rules


class CloudPlanner:
    """Makes plans for a cloud. ``default_ratio`` is that of pools that report none.

    ``report_interval`` are the seconds between two reports. Without a ``database`` no other plans are known.
    """

    def __init__(
        self,
        client: CinderClient,
        rules: Rules,
        default_ratio: float | str,
        report_interval: float,
        database: Database | None = None,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
    ) -> None:
        self._client, self._rules, self._default_ratio = client, rules, default_ratio
        self._report_interval, self._database, self._now = report_interval, database, now
        self._types: Sequence[VolumeType] | None = None
        self._table: PoolTable | None = None
        self._type_of: Mapping[str, str | None] = {}

    def plan_beside(self, query: PlanQuery, held: Mapping[str, str]) -> MovePlan:
        """Return a plan for a goal, by all volumes of the cloud, that uses no pool of ``held``.

        ``held`` maps the pools of other plans to the ids of these plans. Raises
        :class:`~tonnage.capacity.errors.InvalidInput` for an unknown goal or wrong arguments,
        :class:`~tonnage.capacity.errors.NotFound` for a pool or a backend that is not there,
        :class:`~tonnage.capacity.errors.Unavailable` as long as a backend that takes volumes shows no pool, and the
        errors of :class:`~tonnage.extensions.relocation.cinder_client.CinderClient`.
        """
        if query.arguments.get(KEEP_FORECAST):
            raise errors.InvalidInput(
                f"{KEEP_FORECAST} is true, and the pools of a cloud have no forecasts: neither Cinder nor the watch "
                "beside its schedulers records the history that they need"
            )
        goal = goal_loader.load(query.goal, query.arguments)
        self._types = self._client.types()
        # Pools before volumes: a volume that comes in between counts as in flight.
        figures = self.figures()
        figures.require_reports()
        volumes = self._client.volumes()
        self._type_of = {volume.id: volume.volume_type for volume in volumes}
        sums, held_pools = cloud_volumes.sums(volumes), self._held_pools()
        table = figures.table(
            volumes,
            self._default_ratio,
            self._report_interval,
            moving=self._moving(),
            sums=sums,
            # Those that plans use, and those that the goal names, are there without a volume too.
            hidden=[*held_pools, *figures.hidden(_names(query.arguments), [*sums, *held_pools])],
        )
        read = volumes, self._client.volumes_with_snapshots()
        choices = plan_choices.read(query.options)
        reader = CloudVolumes(self._client, choices, self._types, table, self._rules, read)
        reader.check_retypes()
        return goal.plan(PoolModel(table, self._rules, reader, held))

    def new_types(self, plan: MovePlan, choices: Choices) -> dict[int, str]:
        """Return the types that volumes get by the moves of the last plan, by the numbers of the moves."""
        types = {move.number: choices.retype.get(self._type_of.get(move.volume_id) or "") for move in plan.moves}
        return {number: volume_type for number, volume_type in types.items() if volume_type is not None}

    def model(self, query: PlanQuery) -> PoolModel:
        """Return a model of the pools as they are now, to look at single moves."""
        figures = self.figures()
        since = figures.contained_before(self._report_interval).isoformat(timespec="seconds")
        changed = {
            volume.id: volume
            for key in ("created_at", "updated_at")
            for volume in self._client.volumes(**{key: f"gte:{since}"})
        }
        self._table = figures.table(
            changed.values(),
            self._default_ratio,
            self._report_interval,
            moving=self._moving(),
            # Pools of disabled backends, which Cinder's scheduler does not show.
            sums=None,
            hidden=self._held_pools(),
        )
        return PoolModel(self._table, self._rules, self.volumes(query))

    def volumes(self, query: PlanQuery) -> CloudVolumes:
        """Return a reader of the volumes as they are now, with the pools of the last model."""
        if self._types is None:
            self._types = self._client.types()
        table = PoolTable() if self._table is None else self._table
        return CloudVolumes(self._client, plan_choices.read(query.options), self._types, table, self._rules)

    def figures(self) -> Figures:
        """Return the figures of the pools as Cinder's schedulers show them now."""
        read_at = self._now()
        pools, services = tuple(self._client.pools()), tuple(self._client.services())
        if not pools:
            raise errors.Unavailable("Cinder's scheduler knows no pool: no backend has reported to it yet")
        return Figures(pools=pools, services=services, read_at=read_at)

    def _moving(self) -> dict[str, int]:
        """Return the GiB that the moves of plans under way bring into pools."""
        sizes: dict[str, int] = defaultdict(int)
        if self._database is not None:
            with self._database.reading() as session:
                for load in plan_records.moving(session):
                    sizes[load.target] += load.size_gb
        return sizes

    def _held_pools(self) -> list[str]:
        """Return the pools that plans use."""
        if self._database is None:
            return []
        with self._database.reading() as session:
            return list(plan_records.held_by_others(session, ""))


def _names(arguments: Mapping[str, Any]) -> list[str]:
    """Return the texts among the arguments of a goal: those that name a pool or a backend, and others."""
    values = [value if isinstance(value, (list, tuple)) else [value] for value in arguments.values()]
    return [text for texts in values for text in texts if isinstance(text, str)]
