# SPDX-License-Identifier: Apache-2.0
"""Keeps a volume on the machine of its instance."""

from collections.abc import Hashable

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools import Pool
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.pools import backend_of
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter
from tonnage.filters.base import Mask

#: The hint that names the instance.
HINT = "local_to_instance"


class InstanceLocalityFilter(Filter):
    """Accepts pools on the host where the instance runs that the hint ``local_to_instance`` names.

    Where that is, the compute service knows. It is looked up before filters run; a request with the hint that comes
    without an answer is refused.
    """

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the hosts of all pools."""
        return self.narrow(pools, request, np.ones(len(pools), dtype=np.bool_))

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """Compare the hosts of the pools that are still in."""
        if not request.hints.get(HINT):
            return np.ones(len(pools), dtype=np.bool_)
        local = np.zeros(len(pools), dtype=np.bool_)
        if request.instance_host is not None:
            rows = np.flatnonzero(still_in)
            local[rows] = [_host(pools.names[row]) == request.instance_host for row in rows.tolist()]
        return local

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Keep what is true of every request without the hint."""
        return None if request.hints.get(HINT) else ()

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name both hosts, or say that nobody could be asked."""
        instance = str(request.hints.get(HINT))
        if request.instance_host is None:
            return Rejection(
                "no_compute_service",
                f"cannot be chosen by the hint {HINT}: no compute service (Nova) is configured that knows where "
                f"instance {instance} runs",
                {"instance": instance},
            )
        host = _host(pool.name)
        return Rejection(
            "other_host",
            f"is on host {host}; instance {instance}, which the hint {HINT} names, runs on {request.instance_host}",
            {"instance": instance, "host": host, "instance_host": request.instance_host},
        )


def _host(pool: str) -> str:
    return backend_of(pool).partition("@")[0]
