# SPDX-License-Identifier: Apache-2.0
"""The volumes of a cloud as a plan needs them: the request that their move makes, or why they cannot be moved."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Operation, Request, judged_thin, requested_provisioning
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolume
from tonnage.extensions.relocation import cloud_obstacles
from tonnage.extensions.relocation.cinder_client import CinderClient, Volume, VolumeType
from tonnage.extensions.relocation.plan_choices import Choices
from tonnage.ledger.catalog.volume_types import TypeSpecs
from tonnage.scheduler.requests.placement_requests import Single
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec

#: The extra spec and capability by which an encrypted volume stays on storage of its own sort.
_PROTOCOL = "storage_protocol"


def state_of(volume: Volume) -> dict[str, Any]:
    """Return the state of a volume by which a later change of it shows."""
    return {
        "status": volume.status,
        "migration_status": volume.migration_status,
        "volume_type": volume.volume_type,
        "updated_at": volume.updated_at,
    }


class CloudVolumes:
    """Reads the volumes of a cloud. ``table`` has the pools, and ``rules`` choose among them.

    ``volumes`` are all volumes with the ids of those with snapshots, where they have been read.
    """

    def __init__(
        self,
        client: CinderClient,
        choices: Choices,
        types: Sequence[VolumeType],
        table: PoolTable,
        rules: Rules,
        volumes: tuple[Sequence[Volume], set[str]] | None = None,
    ) -> None:
        self._client, self._choices, self._table, self._rules = client, choices, table, rules
        self._types = {volume_type.name: volume_type for volume_type in types}
        self._volumes = volumes
        self._by_pool: dict[str, list[Volume]] | None = None
        self._placed_by_pool: dict[str, list[PlacedVolume]] = {}

    def load(self, pools: Iterable[str]) -> None:
        """Read the volumes of all pools at once, unless they have been read."""
        if self._by_pool is not None:
            return
        if self._volumes is None:
            self._volumes = self._client.volumes(), self._client.volumes_with_snapshots()
        by_pool: dict[str, list[Volume]] = defaultdict(list)
        for volume in self._volumes[0]:
            if volume.pool is not None and not cloud_obstacles.is_copy(volume):
                by_pool[volume.pool].append(volume)
        self._by_pool = by_pool

    def of(self, pool: str) -> list[PlacedVolume]:
        """Return the volumes of a pool, the largest first."""
        self.load([pool])
        if pool not in self._placed_by_pool and self._by_pool is not None and self._volumes is not None:
            with_snapshots = self._volumes[1]
            volumes = sorted(self._by_pool.get(pool, ()), key=lambda volume: (-volume.size, volume.id))
            placed = [self._placed(volume, pool, volume.id in with_snapshots) for volume in volumes]
            self._placed_by_pool[pool] = placed
        return self._placed_by_pool.get(pool, [])

    def read(self, ids: Sequence[str]) -> Mapping[str, PlacedVolume]:
        """Return volumes by their ids, without those that are in no pool. Each is read when it is looked up."""
        return _ReadVolumes(ids, self._read)

    def _read(self, volume_id: str) -> PlacedVolume | None:
        volume = self._client.volume(volume_id)
        if volume is None or volume.pool is None:
            return None
        has_snapshots = bool(self._client.volumes_with_snapshots(volume_id=volume_id))
        return self._placed(volume, volume.pool, has_snapshots)

    def lookup(self, items: Sequence[Single]) -> Lookup:
        """Return the volume types, by their names and ids."""
        types = {}
        for volume_type in self._types.values():
            specs = TypeSpecs(volume_type.id, volume_type.name, volume_type.extra_specs, {})
            types.update({volume_type.id: specs, volume_type.name: specs})
        return Lookup(types, {})

    def check_retypes(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.InvalidInput` for a retype from or to a type that is not there."""
        for name in (name for pair in self._choices.retype.items() for name in pair):
            if name not in self._types:
                raise errors.InvalidInput(
                    f"volume type {name!r} could not be found: the types are {', '.join(sorted(self._types))}"
                )

    def _placed(self, volume: Volume, pool: str, has_snapshots: bool) -> PlacedVolume:
        reason = cloud_obstacles.of(volume, self._choices, has_snapshots=has_snapshots)
        spec = None
        new_type = self._choices.retype.get(volume.volume_type or "")
        if reason is None:
            try:
                spec = self._spec(volume, pool, new_type)
            except errors.InvalidInput as error:
                reason = f"volume {volume.id}: {error.message}"
        if spec is not None and new_type is not None and self._suits(spec, pool):
            reason = f"volume {volume.id}: Cinder would leave it in {pool} as type {new_type}, which that pool suits"
            spec = None
        row = self._table.get(pool)
        provisioning = None if spec is None else spec.request.provisioning
        is_thick = row is not None and not judged_thin(row.thin, row.thick, provisioning)
        return PlacedVolume(
            id=volume.id,
            size_gb=volume.size,
            pool=pool,
            is_thick=is_thick,
            spec=spec,
            reason=reason or "",
            state=state_of(volume),
        )

    def _spec(self, volume: Volume, pool: str, new_type: str | None) -> RequestSpec:
        """Return the request of a move. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
        type_name = new_type or volume.volume_type
        volume_type = self._types.get(type_name) if type_name else None
        if type_name and volume_type is None:
            raise errors.InvalidInput(f"its volume type {type_name!r} could not be found")
        specs: dict[str, str] = {} if volume_type is None else dict(volume_type.extra_specs)
        if volume.encrypted and (protocol := self._protocol(pool)) is not None:
            # Drivers of other storage may keep the header of the encryption in another place.
            specs.setdefault(_PROTOCOL, protocol)
        request = Request(
            request_id=volume.id,
            size_gb=volume.size,
            operation=Operation.MIGRATE,
            provisioning=requested_provisioning(specs),
            volume_type=type_name,
            extra_specs=specs,
            project_id=volume.project_id or "",
            availability_zone=volume.availability_zone,
            attempted=frozenset({pool}),
            copies=True,
        )
        return RequestSpec(request=request, volume_id=volume.id, target_size_gb=volume.size, volume_type_id=new_type)

    def _protocol(self, pool: str) -> str | None:
        row = self._table.get(pool)
        protocol = None if row is None else row.capabilities.get(_PROTOCOL)
        return protocol if isinstance(protocol, str) else None

    def _suits(self, spec: RequestSpec, pool: str) -> bool:
        """Return whether a volume may stay in its pool with its new type, apart from room."""
        index = self._table.index(pool)
        request = replace(spec.request, attempted=frozenset(), pool=pool, size_gb=0)
        return index is not None and bool(self._rules.without_room.filters.candidates(self._table, request)[index])


class _ReadVolumes(Mapping[str, PlacedVolume]):
    """Volumes by their ids, each read when it is looked up: of many steps that wait only a few begin."""

    def __init__(self, ids: Sequence[str], read: Callable[[str], PlacedVolume | None]) -> None:
        self._ids, self._read = dict.fromkeys(ids), read
        self._placed: dict[str, PlacedVolume | None] = {}

    def __getitem__(self, volume_id: str) -> PlacedVolume:
        if volume_id not in self._ids:
            raise KeyError(volume_id)
        if volume_id not in self._placed:
            self._placed[volume_id] = self._read(volume_id)
        if (volume := self._placed[volume_id]) is None:
            raise KeyError(volume_id)
        return volume

    def __iter__(self) -> Iterator[str]:
        return (volume_id for volume_id in self._ids if volume_id in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def sums(volumes: Iterable[Volume]) -> Mapping[str, int]:
    """Return the sizes of all volumes of each pool, in GiB."""
    sizes: dict[str, int] = defaultdict(int)
    for volume in volumes:
        if volume.pool is not None:
            sizes[volume.pool] += volume.size
    return sizes
