# SPDX-License-Identifier: Apache-2.0
"""Which nodes can take some volumes together, and why the others cannot."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tonnage.capacity.topology import node_packing
from tonnage.capacity.topology.node_packing import Demand, Fit, Ints, Supply
from tonnage.k8s.capacity.driver_storage import entry_for
from tonnage.k8s.capacity.node_accessibility import Reach
from tonnage.k8s.capacity.pool_columns import Claimed, Figures, PoolKey
from tonnage.k8s.cluster.nodes import Nodes


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that is still to be made: of a storage class, None for an inline ephemeral one. ``size`` is bytes."""

    name: str
    driver: str
    storage_class: str | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Sought:
    """A volume that has to have a place. ``size`` is bytes, ``entry`` the storage that is asked, if there is one."""

    volume: Volume
    size: int
    entry: str | None
    figures: Figures
    offset: int


class Pass(enum.StrEnum):
    """Why a volume passes everywhere."""

    UNKNOWN_DRIVER = "UnknownDriver"
    NOT_TRACKED = "NotTracked"
    NO_SIZE = "NoSize"


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A volume that passes everywhere, as there is nothing to check."""

    volume: Volume
    code: Pass

    @property
    def message(self) -> str:
        """Why that is so."""
        why = {
            Pass.UNKNOWN_DRIVER: f"driver {self.volume.driver} is not known",
            Pass.NOT_TRACKED: f"driver {self.volume.driver} has no capacityTracking",
            Pass.NO_SIZE: "it has no size",
        }
        return f"volume {self.volume.name!r} was not checked: {why[self.code]}"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a volume goes: a pool of its driver, with the pool's ``backing_id`` and ``capacity`` in bytes."""

    volume: Volume
    driver: str
    uid: str
    pool: PoolKey
    size: int
    backing_id: str | None
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer for each node, with all that explains it. ``demands`` and the columns of ``fit`` are as ``sought``.

    Pools of several drivers are numbered one after the other, those of each from its ``offset``. ``refused`` has the
    volumes for which there is no storage to ask, so that no node takes them, ``unchecked`` those that pass everywhere.
    """

    nodes: Nodes
    sought: tuple[Sought, ...]
    refused: tuple[Sought, ...]
    unchecked: tuple[Unchecked, ...]
    demands: tuple[Demand, ...]
    supply: Supply
    fit: Fit
    now: int

    def taking(self) -> list[int]:
        """Return the nodes that take all volumes."""
        rows: list[int] = np.nonzero(self.fit.fits)[0].tolist()
        return rows

    def places(self, node: int) -> list[Placed]:
        """Return where the volumes go on a node that takes them."""
        found = []
        for each, pool in zip(self.sought, self.fit.pools[node].tolist(), strict=True):
            figures, row = each.figures, pool - each.offset
            found.append(
                Placed(
                    volume=each.volume,
                    driver=figures.name,
                    uid=figures.uid,
                    pool=figures.keys[row],
                    size=each.size,
                    backing_id=figures.backing[row],
                    capacity=int(figures.capacity[row]),
                )
            )
        return found

    def left(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        """Return which share of the fullest pool would be left on each node, 0..1; 1 where nothing is taken."""
        pools = np.maximum(self.fit.pools, 0)
        if not pools.shape[1]:
            return np.ones(len(self.nodes))
        group = self.supply.group[pools]
        costs = np.stack([self.supply.cost(one.size)[pools[:, i]] for i, one in enumerate(self.demands)], axis=1)
        share = np.ones(len(self.nodes))
        for volume in range(pools.shape[1]):
            taken = np.where(group == group[:, volume, None], costs.astype(np.float64), 0).sum(axis=1)
            measure = self.supply.measure[group[:, volume]]
            left = (self.supply.room[group[:, volume]] - taken) / np.maximum(measure, 1)
            share = np.minimum(share, np.clip(left, 0, 1))
        return np.where(self.fit.fits, share, 0.0)


def decide(
    drivers: Mapping[str, Figures],
    claims: Mapping[str, Sequence[Claimed]],
    now: int,
    volumes: Sequence[Volume],
    nodes: Nodes,
    reach: Reach,
) -> Decision:
    """Tell which nodes take these volumes together at a moment; ``claims`` are those of each driver.

    A volume passes everywhere if it has no size, if its driver is not known, or does not track its capacity.
    """
    asked, unchecked = [], []
    for volume in volumes:
        driver = drivers.get(volume.driver)
        if driver is None:
            unchecked.append(Unchecked(volume, Pass.UNKNOWN_DRIVER))
        elif not driver.tracking:
            unchecked.append(Unchecked(volume, Pass.NOT_TRACKED))
        elif volume.size is None:
            unchecked.append(Unchecked(volume, Pass.NO_SIZE))
        else:
            asked.append((volume, volume.size, driver))
    involved = {figures.name: figures for _, _, figures in asked}
    offsets = dict(
        zip(involved, np.cumsum([0, *(len(each.keys) for each in involved.values())]).tolist(), strict=False)
    )
    sought = [
        Sought(volume, size, entry_for(figures.entries, volume.storage_class), figures, offsets[figures.name])
        for volume, size, figures in asked
    ]
    supply = _joined([figures.supply(now, claims.get(name, ())) for name, figures in involved.items()])
    slots: dict[tuple[str, str], Ints] = {}
    demands = []
    for each in sought:
        if each.entry is None:
            continue
        key = each.figures.name, each.entry
        if key not in slots:
            found = reach.slots(each.figures, each.entry, nodes)
            slots[key] = np.where(found >= 0, found + each.offset, found) if each.offset else found
        demands.append(Demand(each.size, slots[key]))
    fit = node_packing.fit(supply, demands, len(nodes))
    refused = tuple(each for each in sought if each.entry is None)
    if refused:
        fit.fits[:] = False
        fit.exact[:] = True
    return Decision(
        nodes=nodes,
        sought=tuple(each for each in sought if each.entry is not None),
        refused=refused,
        unchecked=tuple(unchecked),
        demands=tuple(demands),
        supply=supply,
        fit=fit,
        now=now,
    )


def _joined(supplies: Sequence[Supply]) -> Supply:
    """Return one supply with the pools, and groups, of several one after the other."""
    if len(supplies) == 1:
        return supplies[0]
    none = np.empty(0, dtype=np.int64)
    starts = np.cumsum([0, *(len(each.measure) for each in supplies)]).tolist()
    groups = [each.group + start for each, start in zip(supplies, starts, strict=False)]
    return Supply(
        limit=np.concatenate([none, *(each.limit for each in supplies)]),
        capacity=np.concatenate([none, *(each.capacity for each in supplies)]),
        group=np.concatenate([none, *groups]),
        measure=np.concatenate([none, *(each.measure for each in supplies)]),
        room=np.concatenate([none, *(each.room for each in supplies)]),
    )
