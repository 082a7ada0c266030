# SPDX-License-Identifier: Apache-2.0
"""Matches what a volume type asks for with what pools report."""

import math
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Final

import numpy as np

from tonnage.capacity import units
from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools import Pool
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.pools import short_name
from tonnage.capacity.request import Request
from tonnage.filters import extra_specs
from tonnage.filters.base import Filter
from tonnage.filters.base import Mask

_SCOPE = "capabilities"

_FLAGS = {"thin_provisioning_support": "thin", "thick_provisioning_support": "thick"}

#: Figures by the names that they are reported under, with whether a nan means that nothing was reported.
_FIGURES = {
    "total_capacity_gb": ("total", False),
    "free_capacity_gb": ("free", False),
    "provisioned_capacity_gb": ("provisioned", True),
    "allocated_capacity_gb": ("allocated", False),
    "reserved_percentage": ("reserved_percentage", False),
    "max_over_subscription_ratio": ("ratio", False),
    "storage_free_capacity_gb": ("storage_free", True),
}


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_MISSING: Final = _Missing()


class CapabilitiesFilter(Filter):
    """Accepts pools whose capabilities match every extra spec of the request's type.

    Keys without a scope and those in the scope ``capabilities:`` are looked at; further colons step into nested
    capabilities. The specs are those of :mod:`tonnage.filters.extra_specs`.
    """

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Match all pools."""
        return self.narrow(pools, request, np.ones(len(pools), dtype=np.bool_))

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """Match the pools that earlier filters and specs left."""
        matched = still_in
        for path, spec in _asked(request):
            matched = matched & _match_column(pools, path, extra_specs.compiled(spec), matched)
        return matched

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the first spec that the pool does not match."""
        for path, spec in _asked(request):
            value = _value(pool, path)
            key = ":".join(path)
            if value is _MISSING:
                problem = f"does not report {key}, which has to be '{spec}'"
                return Rejection("capability_missing", problem, {"capability": key, "asked": spec})
            if not extra_specs.compiled(spec)(value):
                problem = f"reports {key} {value!r}, which has to be '{spec}'"
                return Rejection(
                    "capability_mismatch", problem, {"capability": key, "asked": spec, "value": str(value)}
                )
        return super().reason(pool, request)


def _asked(request: Request) -> Iterator[tuple[list[str], str]]:
    """Yield the path of each capability that matters and the spec that it has to match."""
    for key, spec in request.extra_specs.items():
        scope, *path = key.split(":")
        if not path:
            yield [scope], spec
        elif scope == _SCOPE:
            yield path, spec


def _match_column(pools: PoolTable, path: list[str], matches: extra_specs.Predicate, wanted: Mask) -> Mask:
    """Tell which of the wanted pools match; a flag is matched once for all pools, other capabilities pool by pool."""
    if len(path) == 1 and path[0] in _FLAGS:
        return np.where(getattr(pools, _FLAGS[path[0]]), matches(True), matches(False))
    matched = np.zeros(len(pools), dtype=np.bool_)
    rows = np.flatnonzero(wanted).tolist()
    if len(path) == 1 and path[0] in _FIGURES:
        column, optional = _FIGURES[path[0]]
        values = (_figure(figure, optional) for figure in getattr(pools, column)[rows].tolist())
    elif path == ["pool_name"]:
        values = (short_name(pools.names[row]) for row in rows)
    else:
        values = (_nested(pools.capabilities[row], path) for row in rows)
    matched[rows] = [value is not _MISSING and matches(value) for value in values]
    return matched


def _value(pool: Pool, path: list[str]) -> Any:
    key = path[0]
    if len(path) == 1:
        if key in _FLAGS:
            return getattr(pool, _FLAGS[key])
        if key in _FIGURES:
            column, optional = _FIGURES[key]
            return _figure(getattr(pool, column), optional)
        if key == "pool_name":
            return short_name(pool.name)
    return _nested(pool.capabilities, path)


def _figure(value: float, optional: bool) -> Any:
    return _MISSING if optional and math.isnan(value) else units.to_wire(value)


def _nested(capabilities: Mapping[str, Any], path: list[str]) -> Any:
    value: Any = capabilities
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return _MISSING
        value = value[key]
    return value
