# SPDX-License-Identifier: Apache-2.0
"""The reasons why a node does not take volumes, as text with numbers and as data."""

import datetime
import enum
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tonnage.extensions.kubernetes.capacity.node_packing import Bools, Ints
from tonnage.extensions.kubernetes.cluster.quantities import render
from tonnage.extensions.kubernetes.fit.node_decision import CheckedVolume, Decision

#: Number of pools that a message names. It counts the rest.
_SHOWN = 3


class RefusalCode(enum.StrEnum):
    """The kind of a refusal."""

    NO_STORAGE = "NoStorage"
    UNREACHABLE = "Unreachable"
    SOURCE_ELSEWHERE = "SourceElsewhere"
    EXPIRED = "Expired"
    UNKNOWN = "Unknown"
    TOO_LARGE = "TooLarge"
    NOT_TOGETHER = "NotTogether"


class RefusalReason(NamedTuple):
    """The reason for refusing a node, and the affected volumes.

    ``exact`` is false if a way to place the volumes may have been missed.
    """

    code: RefusalCode
    message: str
    volumes: tuple[str, ...]
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHeadroom:
    """A pool that a node can use for the volumes. Sizes are bytes, None if unknown.

    ``headroom`` is the unclaimed capacity of the pool, ``max_volume_size`` the largest volume that its figures allow.
    """

    driver: str
    storage_class: str
    name: str
    capacity: int | None
    headroom: int | None
    max_volume_size: int | None
    expired: bool


@dataclass(frozen=True, slots=True)
class _Contention:
    """Volumes that compete for pools, as text and by name, and the pools of their storages by node."""

    text: str
    volumes: tuple[str, ...]
    storages: tuple[tuple[CheckedVolume, Sequence["memoryview[int]"]], ...]


class RefusalReasons:
    """Returns the reasons for the nodes that a decision refused. Thousands of nodes may share most of the data."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision
        packing_pools = decision.packing_pools
        self._max_volume_size, self._capacity = (
            _python_ints(packing_pools.max_volume_size),
            _python_ints(packing_pools.capacity),
        )
        self._group, self._headroom = _python_ints(packing_pools.group), _python_ints(packing_pools.headroom())
        #: For each volume the pools that nodes have access to, by column.
        columns = {
            id(packing_volume.candidates): [_python_ints(column) for column in packing_volume.candidates.T]
            for packing_volume in decision.packing_volumes
        }
        self._columns = [columns[id(packing_volume.candidates)] for packing_volume in decision.packing_volumes]
        alone = decision.packing.fits_alone
        #: For each node the first volume that does not fit alone.
        self._first_unfitting = _python_ints(
            alone.argmin(axis=1) if decision.packing_volumes else np.empty(0, dtype=np.int64)
        )
        self._volume_texts = [
            f"volume {checked_volume.volume.name!r} of {render(checked_volume.size)} ({_storage_text(checked_volume)})"
            for checked_volume in decision.checked
        ]
        self._contentions: dict[bytes, _Contention] = {}

    def reason(self, node: int) -> RefusalReason:
        """Return the reason why a node was refused."""
        decision = self._decision
        if decision.without_storage:
            checked_volume = decision.without_storage[0]
            storage_text = _storage_text(checked_volume)
            text = f"driver {checked_volume.columns.name} has no storage for {storage_text} and no <fallback>"
            return RefusalReason(RefusalCode.NO_STORAGE, text, (checked_volume.volume.name,))
        first = self._first_unfitting[node]
        return self._together(node) if decision.packing.fits_alone[node, first] else self._alone(first, node)

    def accessible_pools(self, node: int) -> list[PoolHeadroom]:
        """Return the pools that a node can use for the volumes, each once."""
        pools = {}
        for volume, checked_volume in enumerate(self._decision.checked):
            for pool in self._pools(volume, node):
                row = pool - checked_volume.offset
                storage_class, name = checked_volume.columns.keys[row]
                is_known = self._capacity[pool] >= 0
                pools[pool] = PoolHeadroom(
                    driver=checked_volume.columns.name,
                    storage_class=storage_class,
                    name=name,
                    capacity=self._capacity[pool] if is_known else None,
                    headroom=self._headroom[pool] if is_known else None,
                    max_volume_size=int(checked_volume.columns.max_volume_size[row]) if is_known else None,
                    expired=bool(checked_volume.columns.expires_at[row] <= self._decision.now),
                )
        return list(pools.values())

    def _pools(self, volume: int, node: int) -> list[int]:
        """Return the pools that a node can use for a volume."""
        return [pool for column in self._columns[volume] if (pool := column[node]) >= 0]

    def _alone(self, volume: int, node: int) -> RefusalReason:
        """Return the reason why a volume does not fit even alone."""
        checked_volume, pools = self._decision.checked[volume], self._pools(volume, node)
        about, source = (checked_volume.volume.name,), checked_volume.volume.source
        storage_text = _storage_text(checked_volume)
        if source is not None and not source.is_reached_from(self._decision.nodes.nodes[node]):
            text = f"volume {about[0]!r} is a copy of {source.text}, which is not reached from this node"
            return RefusalReason(RefusalCode.SOURCE_ELSEWHERE, text, about)
        # Expired and unknown pools take no volumes.
        texts = [self._pool_text(checked_volume, pool) for pool in pools if self._max_volume_size[pool] >= 0]
        if texts:
            return RefusalReason(RefusalCode.TOO_LARGE, f"{self._volume_texts[volume]}: {_join(texts)}", about)
        if not pools:
            text = f"no pool of {checked_volume.columns.name} for {storage_text} is reached from this node"
            return RefusalReason(RefusalCode.UNREACHABLE, text, about)
        live = [
            pool
            for pool in pools
            if checked_volume.columns.expires_at[pool - checked_volume.offset] > self._decision.now
        ]
        if not live:
            expired = _join([_expiry_text(checked_volume, pool) for pool in pools])
            return RefusalReason(RefusalCode.EXPIRED, f"{storage_text}: {expired}", about)
        names = _join([_pool_name(checked_volume, pool) for pool in live])
        return RefusalReason(RefusalCode.UNKNOWN, f"{storage_text}: the capacity of {names} is not known", about)

    def _together(self, node: int) -> RefusalReason:
        contention = self._contention(node)
        # Pools of different storages on the same disks often have the same name.
        texts_by_group: dict[int, list[str]] = {}
        for checked_volume, columns in contention.storages:
            for column in columns:
                pool = column[node]
                if pool >= 0 and self._max_volume_size[pool] >= 0:
                    texts_by_group.setdefault(self._group[pool], []).append(self._pool_text(checked_volume, pool))
        pools_text = _join([" and, of the same disks, ".join(texts) for texts in texts_by_group.values()])
        exact = bool(self._decision.packing.exact[node])
        caveat = "" if exact else "; there are too many ways to place them to try all"
        return RefusalReason(
            RefusalCode.NOT_TOGETHER, f"{contention.text}, do not fit: {pools_text}{caveat}", contention.volumes, exact
        )

    def _contention(self, node: int) -> _Contention:
        """Return the volumes that compete for pools on a node. They are the same on most nodes."""
        all_bits, width = self._contention_bits
        key = all_bits[node * width : (node + 1) * width]
        contention = self._contentions.get(key)
        if contention is None:
            bits = np.unpackbits(np.frombuffer(key, dtype=np.uint8), count=len(self._decision.checked))
            volumes = np.nonzero(bits)[0].tolist()
            checked = [self._decision.checked[volume] for volume in volumes]
            sizes = " + ".join(
                f"{checked_volume.volume.name!r} {render(checked_volume.size)}" for checked_volume in checked
            )
            storages = {
                id(self._columns[volume]): (self._decision.checked[volume], self._columns[volume])
                for volume in volumes[::-1]
            }
            contention = self._contentions[key] = _Contention(
                f"volumes {sizes}, together {render(sum(checked_volume.size for checked_volume in checked))}",
                tuple(checked_volume.volume.name for checked_volume in checked),
                tuple(storages.values())[::-1],
            )
        return contention

    @functools.cached_property
    def _contention_bits(self) -> tuple[bytes, int]:
        """A bit for each node and volume that shares a group with another volume, and the bytes of a node's bits.

        Other volumes compete with none.
        """
        packing_volumes, group = self._decision.packing_volumes, self._decision.packing_pools.group
        volumes: dict[int, list[int]] = {}
        for volume, packing_volume in enumerate(packing_volumes):
            volumes.setdefault(id(packing_volume.candidates), []).append(volume)
        contended = np.zeros((len(self._decision.nodes), len(packing_volumes)), dtype=np.bool_)
        group_columns = []
        for own in volumes.values():
            candidates = packing_volumes[own[0]].candidates
            group_columns.append((own, np.where(candidates >= 0, group[candidates], -1).T))
            if len(own) > 1:
                contended[:, own] = np.any(candidates >= 0, axis=1, keepdims=True)
        for (volumes_a, columns_a), (volumes_b, columns_b) in itertools.combinations(group_columns, 2):
            for column_a, column_b in itertools.product(columns_a, columns_b):
                contended[:, volumes_a + volumes_b] |= np.reshape((column_a == column_b) & (column_a >= 0), (-1, 1))
        bits = np.packbits(contended, axis=1)
        return bits.tobytes(), bits.shape[1]

    def _pool_text(self, checked_volume: CheckedVolume, pool: int) -> str:
        capacity, max_volume_size, headroom = self._capacity[pool], self._max_volume_size[pool], self._headroom[pool]
        text = f"{_pool_name(checked_volume, pool)} has {render(headroom)} left"
        if headroom != capacity:
            text += f" of {render(capacity)}"
        if 0 <= max_volume_size < capacity:
            text += f", largest volume {render(max_volume_size)}"
        return text


def counts(decision: Decision) -> dict[RefusalCode, int]:
    """Return the number of refused nodes by the code of :meth:`RefusalReasons.reason`, without its texts."""
    refused = ~decision.packing.fits
    if decision.without_storage:
        return _nonzero({RefusalCode.NO_STORAGE: refused})
    alone = decision.packing.fits_alone
    masks = {RefusalCode.NOT_TOGETHER: refused & alone.all(axis=1)}
    first = alone.argmin(axis=1) if alone.shape[1] else np.zeros(len(refused), dtype=np.int64)
    for volume, (checked_volume, packing_volume) in enumerate(
        zip(decision.checked, decision.packing_volumes, strict=True)
    ):
        here = refused & ~alone[:, volume] & (first == volume)
        source = checked_volume.volume.source
        if source is not None and source.accessibility is not None:
            elsewhere = here.copy()
            elsewhere[decision.nodes.rows_matching(source.accessibility)] = False
            _add(masks, RefusalCode.SOURCE_ELSEWHERE, elsewhere)
            here &= ~elsewhere
        pools = packing_volume.candidates
        is_pool = pools >= 0
        takes = (is_pool & (decision.packing_pools.max_volume_size[pools] >= 0)).any(axis=1)
        rows = np.where(is_pool, pools - checked_volume.offset, 0)
        live = (is_pool & (checked_volume.columns.expires_at[rows] > decision.now)).any(axis=1)
        _add(masks, RefusalCode.TOO_LARGE, here & takes)
        _add(masks, RefusalCode.UNREACHABLE, here & ~is_pool.any(axis=1))
        _add(masks, RefusalCode.EXPIRED, here & is_pool.any(axis=1) & ~takes & ~live)
        _add(masks, RefusalCode.UNKNOWN, here & ~takes & live)
    return _nonzero(masks)


def _add(masks: dict[RefusalCode, Bools], code: RefusalCode, mask: Bools) -> None:
    masks[code] = masks[code] | mask if code in masks else mask


def _nonzero(masks: Mapping[RefusalCode, Bools]) -> dict[RefusalCode, int]:
    numbers = {code: int(mask.sum()) for code, mask in masks.items()}
    return {code: number for code, number in numbers.items() if number}


def _python_ints(column: Ints) -> "memoryview[int]":
    """Return a column whose elements are Python integers. Converting single elements would take most of the time."""
    return np.ascontiguousarray(column).data


def _pool_name(checked_volume: CheckedVolume, pool: int) -> str:
    return f"pool {checked_volume.columns.keys[pool - checked_volume.offset][1]}"


def _expiry_text(checked_volume: CheckedVolume, pool: int) -> str:
    micros = int(checked_volume.columns.expires_at[pool - checked_volume.offset])
    at = datetime.datetime.fromtimestamp(micros // 10**6, datetime.UTC)
    return f"{_pool_name(checked_volume, pool)} expired at {at:%Y-%m-%dT%H:%M:%SZ}"


def _storage_text(checked_volume: CheckedVolume) -> str:
    name = checked_volume.volume.storage_class
    return "inline ephemeral volumes" if name is None else f"storage class {name!r}"


def _join(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join(texts[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
