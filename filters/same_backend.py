# SPDX-License-Identifier: Apache-2.0
"""Keeps a volume beside others."""

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters import affinity
from tonnage.filters.base import Mask


class SameBackendFilter(affinity.AffinityFilter):
    """Accepts pools on the backends of the volumes that the hint ``same_host`` names, and every pool without it."""

    looks_at_figures = False
    hint = affinity.SAME_HOST

    def backends(self, request: Request) -> frozenset[str] | None:
        """Return where the volumes are that it shall be beside."""
        return request.same_backends

    def judge(self, pools: PoolTable, backends: frozenset[str]) -> Mask:
        """Accept pools there."""
        return pools.on_backends(backends)

    def misplaced(self, pool: Pool, request: Request) -> Rejection:
        """Name the backends that are meant."""
        wanted = ", ".join(sorted(request.same_backends or ())) or "none that has one of those volumes"
        return Rejection(
            "other_backend", f"is not on the backend that the hint same_host asks for ({wanted})", {"wanted": wanted}
        )
