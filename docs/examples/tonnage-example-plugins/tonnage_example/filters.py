# SPDX-License-Identifier: Apache-2.0
from tonnage.capacity.decision import Rejection
from tonnage.filters.base import PoolFilter


class OddFilter(PoolFilter):
    """Keeps volumes of an odd size out of pools that report ``{"even_only": true}`` in their extra_capabilities."""

    def accepts_pool(self, pool, request):
        return request.size_gb % 2 == 0 or not pool.capabilities.get("even_only")

    def reason(self, pool, request):
        return Rejection("odd_size", f"takes even sizes only, not {request.size_gb} GiB", {"size": request.size_gb})
