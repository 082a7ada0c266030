# SPDX-License-Identifier: Apache-2.0
"""Keeps a volume away from others."""

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters import affinity
from tonnage.filters.base import Mask


class DifferentBackendFilter(affinity.AffinityFilter):
    """Refuses pools on the backends of the volumes that the hint ``different_host`` names."""

    looks_at_figures = False
    hint = affinity.DIFFERENT_HOST

    def backends(self, request: Request) -> frozenset[str] | None:
        """Return where the volumes are that it shall be away from."""
        return request.different_backends

    def judge(self, pools: PoolTable, backends: frozenset[str]) -> Mask:
        """Accept pools elsewhere."""
        return ~pools.on_backends(backends)

    def misplaced(self, pool: Pool, request: Request) -> Rejection:
        """Name the backend that is to be avoided."""
        return Rejection(
            "same_backend",
            f"is on {pool.backend}, where a volume is that the hint different_host names",
            {"backend": pool.backend},
        )
