# SPDX-License-Identifier: Apache-2.0
"""Filter that matches the extra specs of a volume type with the capabilities of pools."""

import functools
import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from tonnage.capacity import storage_protocols, units
from tonnage.capacity.decision import Rejection
from tonnage.capacity.expressions.attributes import FLAGS, REPORTED_FIGURES
from tonnage.capacity.pools.capability_values import MISSING, reported
from tonnage.capacity.pools.pool import short_name
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters import extra_specs
from tonnage.filters.base import Filter, Mask

_SCOPE = "capabilities"
_PROTOCOL = ["storage_protocol"]


class CapabilitiesFilter(Filter):
    """Accepts pools whose capabilities match every extra spec of the request's type.

    Keys without a scope and keys in the scope ``capabilities:`` count. Further colons select nested capabilities.
    :mod:`tonnage.filters.extra_specs` defines the syntax of the specs. A storage protocol matches under each of its
    names (:mod:`tonnage.capacity.storage_protocols`).
    """

    is_categorical = True
    trigger_fields = ("extra_specs",)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Match each distinct value once, not each pool."""
        matched = np.ones(len(pools), dtype=np.bool_)
        for path, spec in _required_specs(request):
            matched &= _match_column(pools, path, extra_specs.compiled(spec))
        return matched

    def cache_key(self, request: Request) -> tuple[Hashable, ...] | None:
        """Cache one set of verdicts for each set of specs, unless a spec is about a figure, which changes too often."""
        return None if _use_figures(*request.extra_specs) else tuple(request.extra_specs.items())

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the first spec that the pool does not match."""
        for path, spec in _required_specs(request):
            value = _value(pool, path)
            key = ":".join(path)
            if value is MISSING:
                problem = f"does not report {key}, which has to be '{spec}'"
                return Rejection("capability_missing", problem, {"capability": key, "asked": spec})
            if not extra_specs.compiled(spec)(_comparable(path, value)):
                problem = f"reports {key} {value!r}, which has to be '{spec}'"
                return Rejection(
                    "capability_mismatch", problem, {"capability": key, "asked": spec, "value": str(value)}
                )
        return super().reason(pool, request)


@functools.lru_cache(maxsize=1000)
def _use_figures(*keys: str) -> bool:
    """Return whether an extra spec is about a figure."""
    return any(key.rpartition(":")[2] in REPORTED_FIGURES for key in keys)


def _required_specs(request: Request) -> Iterator[tuple[list[str], str]]:
    """Yield the path of each required capability and the spec that it has to match."""
    for key, spec in request.extra_specs.items():
        if path := path_of(key):
            yield path, spec


def path_of(key: str) -> list[str]:
    """Return the path of the capability that an extra spec requires, empty if the spec is about something else."""
    scope, *path = key.split(":")
    if not path:
        return [scope]
    return path if scope == _SCOPE else []


def _match_column(pools: PoolTable, path: list[str], matches: extra_specs.Predicate) -> Mask:
    if len(path) == 1:
        key = path[0]
        if key in FLAGS:
            return np.where(getattr(pools, FLAGS[key]), matches(True), matches(False))
        if key in REPORTED_FIGURES:
            column, optional = REPORTED_FIGURES[key]
            figures, places = np.unique(getattr(pools, column), return_inverse=True)
            return _mask([_figure(figure, optional) for figure in figures.tolist()], matches)[places]
        if key == "pool_name":
            return _mask(list(map(short_name, pools.names)), matches)
    codes, values = pools.capability(*path)
    return _mask([_comparable(path, value) for value in values], matches)[codes]


def _mask(values: Sequence[object], matches: extra_specs.Predicate) -> Mask:
    return np.fromiter((value is not MISSING and matches(value) for value in values), dtype=np.bool_, count=len(values))


def _value(pool: Pool, path: list[str]) -> Any:
    key = path[0]
    if len(path) == 1:
        if key in FLAGS:
            return getattr(pool, FLAGS[key])
        if key in REPORTED_FIGURES:
            column, optional = REPORTED_FIGURES[key]
            return _figure(getattr(pool, column), optional)
        if key == "pool_name":
            return short_name(pool.name)
    return reported(pool.capabilities, path)


def _comparable(path: list[str], value: object) -> object:
    """Return the value to compare: all names of a storage protocol, or the reported value itself."""
    return storage_protocols.aliases(value) if path == _PROTOCOL else value


def _figure(value: float, optional: bool) -> Any:
    return MISSING if optional and math.isnan(value) else units.to_wire(value)
