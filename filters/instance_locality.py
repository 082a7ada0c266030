# SPDX-License-Identifier: Apache-2.0
"""Keeps a volume on the machine of its instance."""

from collections.abc import Hashable, Mapping

import numpy as np
from oslo_utils import uuidutils

from tonnage.capacity.decision import Rejection
from tonnage.capacity.names import backend_of
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import LOCAL_TO_INSTANCE, Locality, Request
from tonnage.filters.base import Filter, Mask


def named(hints: Mapping[str, object]) -> str | None:
    """Return the id of the instance that hints name, None where they name none, or something that is no id."""
    value = hints.get(LOCAL_TO_INSTANCE)
    return value if isinstance(value, str) and uuidutils.is_uuid_like(value) else None


class InstanceLocalityFilter(Filter):
    """Accepts pools on the host where the instance runs that the hint ``local_to_instance`` names.

    Where that is, the compute service knows. It is asked before filters run; a request with the hint that comes without
    an answer is refused.
    """

    looks_at_figures = False

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the hosts of all pools."""
        return self.narrow(pools, request, np.ones(len(pools), dtype=np.bool_))

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """Compare the hosts of the pools that are still in."""
        if not request.hints.get(LOCAL_TO_INSTANCE):
            return np.ones(len(pools), dtype=np.bool_)
        local = np.zeros(len(pools), dtype=np.bool_)
        host = _locality(request).host
        if host is not None:
            rows = np.flatnonzero(still_in)
            local[rows] = [_host(pools.names[row]) == host for row in rows.tolist()]
        return local

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Keep what is true of every request without the hint."""
        return None if request.hints.get(LOCAL_TO_INSTANCE) else ()

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the pool's host, or say why that of the instance is not known.

        That of the instance is not named: Nova shows it to administrators alone, and a refusal is read by users.
        """
        instance, locality = str(request.hints.get(LOCAL_TO_INSTANCE))[:80], _locality(request)
        if locality.host is None:
            problem = f"cannot be chosen by the hint {LOCAL_TO_INSTANCE}: {locality.problem}"
            return Rejection(locality.code, problem, {"instance": instance})
        host = _host(pool.name)
        return Rejection(
            "other_host",
            f"is on host {host}; instance {instance}, which the hint {LOCAL_TO_INSTANCE} names, runs on another",
            {"instance": instance, "host": host},
        )


def _locality(request: Request) -> Locality:
    """Return where the instance of a request with the hint runs, or why that is not known."""
    instance = named(request.hints)
    if instance is None:
        value = repr(request.hints[LOCAL_TO_INSTANCE])[:80]
        return Locality(code="bad_hint", problem=f"{value} is no id of an instance")
    if request.locality is not None:
        return request.locality
    problem = f"no compute service (Nova) is configured that knows where instance {instance} runs"
    return Locality(code="no_compute_service", problem=problem)


def _host(pool: str) -> str:
    return backend_of(pool).partition("@")[0]
