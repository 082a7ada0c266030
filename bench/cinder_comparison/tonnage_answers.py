# SPDX-License-Identifier: Apache-2.0
"""Tonnage's answers to the cases of the differential test."""

import importlib.metadata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np

from cinder_comparison.cases import FOREIGN, INSTANCES, VOLUMES, Case, CaseRequest, PoolCase
from tonnage.capacity import arithmetic, errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.over_subscription import AUTO
from tonnage.capacity.pool_stats import BadField
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.reports import validation
from tonnage.capacity.request import Locality, Operation, Request, judged_thin
from tonnage.filters.base import Filter
from tonnage.filters.chain import FilterChain
from tonnage.ledger import models
from tonnage.ledger.catalog.volume_types import TypeSpecs
from tonnage.rpc.messages import CreateVolume
from tonnage.scheduler.decisions import resolution
from tonnage.scheduler.requests import request_spec
from tonnage.weighers.base import Weigher
from tonnage.weighers.chain import WeigherChain


def _plugins(group: str) -> dict[str, type]:
    return {one.name: one.load() for one in importlib.metadata.entry_points(group=group)}


_FILTERS: Mapping[str, type[Filter]] = _plugins("tonnage.filters")
_WEIGHERS: Mapping[str, type[Weigher]] = _plugins("tonnage.weighers")

_VOLUMES = {
    volume: models.Volume(id=volume, project_id=project, status="available", pool=models.Pool(name=pool))
    for project, volumes in (("p", VOLUMES), ("q", FOREIGN))
    for volume, pool in volumes.items()
}
_VOLUMES_IN = Counter([*VOLUMES.values(), *FOREIGN.values()])


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a case.

    ``verdicts`` has True for each accepted pool. ``refused`` is the reason for which the whole request is invalid,
    ``left_out`` maps the index of a pool to the error in its report. A case of weighers has no verdicts: ``raw`` maps
    each weigher to its weights by pool, ``totals`` has the total weights, and ``order`` the pools, best first.
    """

    verdicts: list[bool] = field(default_factory=list)
    refused: str | None = None
    left_out: dict[int, BadField] = field(default_factory=dict)
    raw: dict[str, dict[str, float]] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)


def answer(case: Case) -> Answer:
    """Judge the pools of a case as the scheduler would."""
    left_out: dict[int, BadField] = {}
    pools: list[Pool] = []
    for place, one in enumerate(case.pools):
        found = pool_of(one, case.ratio)
        if isinstance(found, Pool):
            pools.append(found)
        else:
            left_out[place] = found
    try:
        request = request_of(case.request)
    except errors.InvalidInput as error:
        return Answer([False] * len(case.pools), str(error), left_out)
    table = PoolTable(pools)
    for one in case.pools:
        row = table.index(one.name)
        if row is not None:
            thin = bool(judged_thin(table.thin[row], table.thick[row], request.provisioning))
            for size in one.placed:
                table.claim(row, size, 0 if thin else size)
    if case.weighers:
        return _weigh(case, table, request, left_out)
    plugin = _FILTERS[case.plugin](SimpleNamespace(over_provisioning_calculation=Calculation(case.calculation)))
    chain = FilterChain([plugin], Calculation(case.calculation))
    result = chain.run(table, request)
    if result.failures:
        raise AssertionError(f"{case.plugin} failed: {result.failures[0]}")
    if not np.array_equal(result.remaining, chain.candidates(table, request)):
        raise AssertionError(f"{case.plugin} accepts other pools with cached verdicts than without")
    accepted = {name for name, verdict in zip(table.names, result.remaining.tolist(), strict=True) if verdict}
    return Answer([one.name in accepted for one in case.pools], None, left_out)


def _weigh(case: Case, table: PoolTable, request: Request, left_out: dict[int, BadField]) -> Answer:
    weighers = []
    for name, multiplier in case.weighers.items():
        kind = _WEIGHERS[name]
        options = {option.dest: multiplier for option in kind.options}
        weighers.append(kind(SimpleNamespace(over_provisioning_calculation=Calculation(case.calculation), **options)))
    chain, candidates = WeigherChain(weighers), np.ones(len(table), dtype=np.bool_)
    weights = chain.weights(table, request, candidates)
    raw = {
        weigher.name: {pool: given[place].raw for pool, (given, _) in weights.items()}
        for place, weigher in enumerate(weighers)
    }
    rows = chain.order(table, request, candidates).tolist()
    if chain.rank(table, request, candidates) != rows[0]:
        raise AssertionError(f"the best pool by {', '.join(case.weighers)} is not the first of their order")
    order = [table.names[row] for row in rows]
    totals = {pool: total for pool, (_, total) in weights.items()}
    return Answer([], None, left_out, raw, totals, order)


def pool_of(case: PoolCase, default_ratio: float | str) -> Pool | BadField:
    """Return a pool as the host manager stores it after a report, or the error in the report."""
    checked = validation.validate([{**case.report, "pool_name": case.name.partition("#")[2]}])
    if checked.errors:
        return checked.errors[0]
    [stats] = checked.pools
    ratio = default_ratio if stats.ratio is None else stats.ratio
    if ratio == AUTO:
        ratio = float(arithmetic.auto_ratio(stats.total, stats.free, stats.provisioned, float(case.allocated)))
    return Pool(
        name=case.name,
        total=stats.total,
        free=stats.free,
        provisioned=stats.provisioned,
        allocated=float(case.allocated),
        volumes=float(_VOLUMES_IN[case.name]),
        reserved_percentage=stats.reserved_percentage,
        ratio=float(ratio),
        thin=stats.thin,
        thick=stats.thick,
        availability_zone=case.zone,
        capabilities=stats.capabilities,
    )


def request_of(wish: CaseRequest) -> Request:
    """Return the request that the scheduler resolves from a message."""
    kind = TypeSpecs("t", "t", wish.extra_specs, {})
    message = CreateVolume(
        request_id="req-1",
        volume_id="00000000-0000-4000-8000-000000000001",
        size_gb=wish.takes,
        project_id="p",
        volume_type="t",
        availability_zone=wish.zone,
        hints=wish.hints,
    )
    request = resolution.resolve_create(message, request_spec.Lookup({"t": kind}, _VOLUMES)).request
    instance = wish.hints.get("local_to_instance")
    host = INSTANCES.get(instance) if isinstance(instance, str) else None
    return replace(
        request,
        operation=Operation.EXTEND if wish.new_size else Operation.CREATE,
        qos_specs=wish.qos_specs,
        attempted=frozenset(wish.attempted),
        locality=Locality(host),
    )
