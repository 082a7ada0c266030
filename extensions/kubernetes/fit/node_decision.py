# SPDX-License-Identifier: Apache-2.0
"""The decision of which nodes take some volumes together."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.capacity import node_packing
from tonnage.extensions.kubernetes.capacity.claim_sums import PoolKey
from tonnage.extensions.kubernetes.capacity.driver_storage import storage_for_class
from tonnage.extensions.kubernetes.capacity.node_accessibility import AccessibilityCache
from tonnage.extensions.kubernetes.capacity.node_packing import Ints, PackingPools, PackingResult, PackingVolume
from tonnage.extensions.kubernetes.capacity.pool_columns import PoolColumns
from tonnage.extensions.kubernetes.cluster.nodes import Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume


@dataclass(frozen=True, slots=True)
class CheckedVolume:
    """A volume that needs capacity. ``size`` is bytes.

    ``storage`` is the storage that serves its class, None if there is none. The driver's pools begin at index
    ``offset`` of the packing's pools.
    """

    volume: Volume
    size: int
    storage: str | None
    columns: PoolColumns
    offset: int


class UncheckedCode(enum.StrEnum):
    """The reason for leaving a volume unchecked."""

    UNKNOWN_DRIVER = "UnknownDriver"
    NOT_TRACKED = "NotTracked"
    NO_SIZE = "NoSize"


@dataclass(frozen=True, slots=True)
class UncheckedVolume:
    """A volume that every node takes, because its capacity cannot be checked."""

    volume: Volume
    code: UncheckedCode

    @property
    def message(self) -> str:
        """The reason as text."""
        reasons = {
            UncheckedCode.UNKNOWN_DRIVER: f"driver {self.volume.driver} is not known",
            UncheckedCode.NOT_TRACKED: f"driver {self.volume.driver} has no capacityTracking",
            UncheckedCode.NO_SIZE: "it has no size",
        }
        return f"volume {self.volume.name!r} was not checked: {reasons[self.code]}"


@dataclass(frozen=True, slots=True)
class Placement:
    """The pool of a volume, with the pool's ``backing_id`` and ``capacity`` in bytes."""

    volume: Volume
    driver: str
    uid: str
    pool: PoolKey
    size: int
    backing_id: str | None
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer for each node, with the data that explain it.

    ``checked``, ``packing_volumes`` and the columns of ``packing`` have the same order. ``packing_pools`` has the pools
    of all drivers, those of each driver from its ``offset``. ``without_storage`` has the volumes without a storage for
    their class, which no node takes, and ``unchecked`` the volumes that every node takes. ``now`` is in microseconds
    since 1970.
    """

    nodes: Nodes
    checked: tuple[CheckedVolume, ...]
    without_storage: tuple[CheckedVolume, ...]
    unchecked: tuple[UncheckedVolume, ...]
    packing_volumes: tuple[PackingVolume, ...]
    packing_pools: PackingPools
    packing: PackingResult
    now: int

    def fitting_nodes(self) -> list[int]:
        """Return the rows of the nodes that take all volumes."""
        rows: list[int] = np.nonzero(self.packing.fits)[0].tolist()
        return rows

    def placements(self, node: int) -> list[Placement]:
        """Return the placements of the volumes on a node that takes them."""
        placements = []
        for checked_volume, pool in zip(self.checked, self.packing.pools[node].tolist(), strict=True):
            columns, row = checked_volume.columns, pool - checked_volume.offset
            placements.append(
                Placement(
                    volume=checked_volume.volume,
                    driver=columns.name,
                    uid=columns.uid,
                    pool=columns.keys[row],
                    size=checked_volume.size,
                    backing_id=columns.backing_ids[row],
                    capacity=int(columns.capacity[row]),
                )
            )
        return placements

    def remaining_fraction(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        """Return for each node the fraction that its fullest used pool would have left, 0 to 1.

        It is 1 if no pool is used, and 0 for nodes that do not take the volumes.
        """
        pools = np.maximum(self.packing.pools, 0)
        if not pools.shape[1]:
            return np.ones(len(self.nodes))
        group = self.packing_pools.group[pools]
        costs = np.stack(
            [
                self.packing_pools.cost(packing_volume.size)[pools[:, i]]
                for i, packing_volume in enumerate(self.packing_volumes)
            ],
            axis=1,
        )
        fraction = np.ones(len(self.nodes))
        for volume in range(pools.shape[1]):
            taken = np.where(group == group[:, volume, None], costs.astype(np.float64), 0).sum(axis=1)
            group_capacity = self.packing_pools.group_capacity[group[:, volume]]
            remaining = (self.packing_pools.group_free[group[:, volume]] - taken) / np.maximum(group_capacity, 1)
            fraction = np.minimum(fraction, np.clip(remaining, 0, 1))
        return np.where(self.packing.fits, fraction, 0.0)


def decide(
    drivers: Mapping[str, PoolColumns],
    pools_by_driver: Mapping[str, PackingPools],
    now: int,
    volumes: Sequence[Volume],
    nodes: Nodes,
    accessibility: AccessibilityCache,
) -> Decision:
    """Return which nodes take these volumes together at a time.

    ``drivers`` and ``pools_by_driver``, their pools at that time less the claims, are by driver name; ``now`` is in
    microseconds since 1970. Every node takes a volume without a size, or of a driver that is unknown or does not track
    its capacity. Only nodes that reach the source of a volume take it.
    """
    to_check, unchecked = [], []
    for volume in volumes:
        driver = drivers.get(volume.driver)
        if driver is None:
            unchecked.append(UncheckedVolume(volume, UncheckedCode.UNKNOWN_DRIVER))
        elif not driver.tracking:
            unchecked.append(UncheckedVolume(volume, UncheckedCode.NOT_TRACKED))
        elif volume.size is None:
            unchecked.append(UncheckedVolume(volume, UncheckedCode.NO_SIZE))
        else:
            to_check.append((volume, volume.size, driver))
    involved_drivers = {columns.name: columns for _, _, columns in to_check}
    offsets = dict(
        zip(
            involved_drivers,
            np.cumsum([0, *(len(columns.keys) for columns in involved_drivers.values())]).tolist(),
            strict=False,
        )
    )
    checked = [
        CheckedVolume(
            volume, size, storage_for_class(columns.storage_rows, volume.storage_class), columns, offsets[columns.name]
        )
        for volume, size, columns in to_check
    ]
    packing_pools = _concatenate([pools_by_driver[name] for name in involved_drivers])
    candidates: dict[tuple[str, str, NodeSelector | None], Ints] = {}
    packing_volumes = []
    for checked_volume in checked:
        if checked_volume.storage is None:
            continue
        selector = None if checked_volume.volume.source is None else checked_volume.volume.source.accessibility
        key = checked_volume.columns.name, checked_volume.storage, selector
        if key not in candidates:
            pools = accessibility.pools_by_node(checked_volume.columns, checked_volume.storage, nodes)
            pools = np.where(pools >= 0, pools + checked_volume.offset, pools) if checked_volume.offset else pools
            candidates[key] = pools if selector is None else _confined(pools, nodes.rows_matching(selector))
        packing_volumes.append(PackingVolume(checked_volume.size, candidates[key]))
    packing = node_packing.pack(packing_pools, packing_volumes, len(nodes))
    without_storage = tuple(entry for entry in checked if entry.storage is None)
    if without_storage:
        packing.fits[:] = False
        packing.exact[:] = True
    return Decision(
        nodes=nodes,
        checked=tuple(entry for entry in checked if entry.storage is not None),
        without_storage=without_storage,
        unchecked=tuple(unchecked),
        packing_volumes=tuple(packing_volumes),
        packing_pools=packing_pools,
        packing=packing,
        now=now,
    )


def _confined(candidates: Ints, rows: Ints) -> Ints:
    """Return the candidates of some nodes, and none for the others."""
    confined = np.full_like(candidates, -1)
    confined[rows] = candidates[rows]
    return confined


def _concatenate(parts: Sequence[PackingPools]) -> PackingPools:
    """Return the pools and groups of several drivers one after the other."""
    if len(parts) == 1:
        return parts[0]
    none = np.empty(0, dtype=np.int64)
    starts = np.cumsum([0, *(len(part.group_capacity) for part in parts)]).tolist()
    groups = [part.group + start for part, start in zip(parts, starts, strict=False)]
    return PackingPools(
        max_volume_size=np.concatenate([none, *(part.max_volume_size for part in parts)]),
        capacity=np.concatenate([none, *(part.capacity for part in parts)]),
        group=np.concatenate([none, *groups]),
        group_capacity=np.concatenate([none, *(part.group_capacity for part in parts)]),
        group_free=np.concatenate([none, *(part.group_free for part in parts)]),
    )
