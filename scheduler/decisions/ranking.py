# SPDX-License-Identifier: Apache-2.0
"""The best pool for a request, by filters and weighers."""

from tonnage.capacity import plugin_errors
from tonnage.capacity.pools.candidate_index import Kind
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.weighers.chain import WeigherChain


def best(pools: PoolTable, request: Request, filters: FilterChain, weighers: WeigherChain) -> int | None:
    """Return the row of the pool that the request goes to; None if there is none.

    Where all filters and the weigher permit it, that is looked up in what is kept for this kind of request.
    """
    row = None
    try:
        terms, ranked = filters.terms(pools, request), weighers.formula(request)
        if terms is not None and ranked is not None:
            kind = Kind((terms.key, *ranked), terms.admitted, terms.rooms, *ranked)
            row = weighers.foremost(pools, request, pools.standing(kind))
    except plugin_errors.CAUGHT:
        # Who failed, and what comes of it, is for the long way to tell.
        pass
    return weighers.rank(pools, request, filters.candidates(pools, request)) if row is None else row
