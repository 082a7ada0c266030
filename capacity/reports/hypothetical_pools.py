# SPDX-License-Identifier: Apache-2.0
"""Hypothetical changes of pools for what-if questions: other ratios and reserves, lost and added pools."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tonnage.capacity import arithmetic, errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.over_subscription import AUTO, parse_ratio
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.reports import validation


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The hypothetical changes of a what-if question.

    ``default_ratio`` applies to pools that report no over-subscription ratio. ``ratios`` (a number, or ``auto``) and
    ``reserved_percentages`` map the name of a pool, ``host@backend#pool``, or of a backend, ``host@backend``, to a
    value; the entry of a pool has precedence over that of its backend. ``reserved_percentage`` applies to all other
    pools. ``lost`` has the names of pools and backends that disappear, with their volumes. ``added`` are new pools in
    the format of drivers' reports, with their full name as ``pool_name`` and their zone as ``availability_zone``.
    """

    default_ratio: float | str | None = None
    ratios: Mapping[str, float | str] = field(default_factory=dict)
    calculation: Calculation | None = None
    reserved_percentage: float | None = None
    reserved_percentages: Mapping[str, float] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    added: tuple[dict[str, Any], ...] = ()


NO_CHANGES = Changes()


@dataclass(frozen=True, slots=True)
class Defaults:
    """The values for pools that report none. ``pools`` are the names of the pools without a ratio."""

    ratio: float | str
    pools: Collection[str] = ()
    availability_zone: str = ""


def apply(pools: PoolTable, changes: Changes, defaults: Defaults) -> None:
    """Apply the changes to a table, which should be a snapshot.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for an unknown pool or backend, an added pool that exists or
    has an invalid report, and for ratios and percentages out of range.
    """
    for name in [pool_name for lost in changes.lost for pool_name in _named(pools, lost, "lost")]:
        pools.remove(name)
    default = defaults.ratio if changes.default_ratio is None else _ratio("default_ratio", changes.default_ratio)
    added = [_added(raw, pools, default, defaults.availability_zone) for raw in changes.added]
    for pool in added:
        if pool.name in pools:
            raise errors.InvalidInput(f"added: pool {pool.name} is there already; give the new one another name")
        pools.put(_with_shared(pool, pools))
    ratios: dict[str, float | str] = {}
    if changes.default_ratio is not None:
        ratios.update({name: default for name in defaults.pools if name in pools})
    ratios.update(_by_pool(pools, changes.ratios, "ratios", _ratio))
    reserves: dict[str, float] = {}
    if changes.reserved_percentage is not None:
        reserves = dict.fromkeys(pools.names, _percentage("reserved_percentage", changes.reserved_percentage))
    reserves.update(_by_pool(pools, changes.reserved_percentages, "reserved_percentages", _percentage))
    pools.put_all(_changed(pools, ratios, reserves))


def ratio(pool: Pool, ratio_setting: float | str) -> float:
    """Return the over-subscription ratio of a pool: ``ratio_setting``, or the computed ratio if that is ``auto``."""
    if ratio_setting != AUTO:
        return float(ratio_setting)
    allocated = pool.allocated + pool.shared_allocated + pool.external
    return float(arithmetic.auto_ratio(pool.total, pool.free, pool.provisioned, allocated))


def _changed(pools: PoolTable, ratios: Mapping[str, float | str], reserves: Mapping[str, float]) -> Iterable[Pool]:
    for name in sorted(ratios.keys() | reserves.keys()):
        pool = pools.get(name)
        if pool is not None:
            reserved = reserves.get(name, pool.reserved_percentage)
            ratio_setting = ratios.get(name)
            yield replace(
                pool,
                reserved_percentage=reserved,
                ratio=pool.ratio if ratio_setting is None else ratio(pool, ratio_setting),
            )


def _named(pools: PoolTable, name: str, subject: str) -> list[str]:
    """Return the names of the pool with this name, or of all pools of the backend with this name."""
    if name in pools:
        return [name]
    names = [] if "#" in name else [pool for pool in pools.names if backend_of(pool) == name]
    if not names:
        raise errors.InvalidInput(
            f"{subject}: there is no pool or backend {name!r}; name one as host@backend#pool or host@backend"
        )
    return names


def _by_pool(pools: PoolTable, values: Mapping[str, Any], subject: str, check: Any) -> dict[str, Any]:
    """Return the value for each pool. A value for the pool has precedence over one for its backend."""
    values_by_pool: dict[str, Any] = {}
    # Backends first: their names have no '#'.
    for name in sorted(values, key=lambda name: ("#" in name, name)):
        value = check(f"{subject} of {name}", values[name])
        values_by_pool.update(dict.fromkeys(_named(pools, name, subject), value))
    return values_by_pool


def _ratio(subject: str, value: object) -> float | str:
    try:
        return parse_ratio(value)
    except ValueError as error:
        raise errors.InvalidInput(f"{subject}: {error}") from None


def _percentage(subject: str, value: float) -> float:
    if not 0 <= value <= 100:
        raise errors.InvalidInput(f"{subject} is {value}: it takes 0 to 100")
    return float(value)


def _added(raw: Mapping[str, Any], pools: PoolTable, default: float | str, zone: str) -> Pool:
    fields = dict(raw)
    given_zone = fields.pop("availability_zone", None)
    name = fields.get("pool_name")
    if not isinstance(name, str) or "@" not in name or not all(name.rpartition("#")):
        raise errors.InvalidInput(f"added: pool_name is {name!r}; a new pool has a full name, host@backend#pool")
    checked = validation.validate([{**fields, "pool_name": name.rpartition("#")[2]}])
    if checked.errors:
        raise errors.InvalidInput(f"added: {checked.errors[0]}")
    stats = checked.pools[0]
    # A driver's report without a capacity counts as empty. Of a question it is a mistake.
    for remark in stats.remarks:
        if remark.code.startswith(("missing_", "negative_")):
            raise errors.InvalidInput(f"added: {remark}")
    if given_zone is None:
        backend = backend_of(name)
        zones = (pools.zones[row] for row, pool_name in enumerate(pools.names) if backend_of(pool_name) == backend)
        given_zone = next(zones, zone)
    pool = Pool(
        name=name,
        total=stats.total,
        free=stats.free,
        provisioned=stats.provisioned,
        storage_free=stats.storage_free,
        reserved_percentage=stats.reserved_percentage,
        thin=stats.thin,
        thick=stats.thick,
        storage_id=stats.storage_id,
        availability_zone=str(given_zone),
        capabilities=stats.capabilities,
    )
    return replace(pool, ratio=ratio(pool, default if stats.ratio is None else stats.ratio))


def _with_shared(pool: Pool, pools: PoolTable) -> Pool:
    """Return a new pool with the claims of the other pools on its storage; see :class:`Pool`."""
    if pool.storage_id is None:
        return pool
    neighbours = [neighbour for neighbour in pools if neighbour.storage_id == pool.storage_id]
    # A pool with storage_free is a partition of the storage, and shares only the physical room.
    is_whole_storage = pool.storage_free != pool.storage_free
    return replace(
        pool,
        shared_allocated=sum(neighbour.allocated for neighbour in neighbours) if is_whole_storage else 0.0,
        shared_in_flight=sum(neighbour.claimed for neighbour in neighbours) if is_whole_storage else 0.0,
        shared_in_flight_physical=sum(neighbour.claimed_physical for neighbour in neighbours),
    )
