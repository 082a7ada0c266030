# SPDX-License-Identifier: Apache-2.0
"""Weigher that spreads volumes by headroom."""

import functools
import math
from collections.abc import Mapping
from typing import ClassVar

from oslo_config import cfg

from tonnage.capacity import arithmetic, elementwise
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.elementwise import Floats
from tonnage.capacity.pools.columns import Formula
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Provisioning, Request, judged_thin
from tonnage.weighers.base import Weigher, Weights


class HeadroomWeigher(Weigher):
    """Prefers the pool that could take the largest volume, by the limits that the CapacityFilter applies.

    CapacityWeigher, whose formula is Cinder's, ranks thin pools by virtual capacity alone. It prefers a nearly full
    pool with a large over-subscription ratio to an empty one. For two thin pools with the ratio 2 and a request of
    15 GiB:

    =====  ==========  =========  ================  ====================  ===================
    total  free        promised   headroom          this weigher's order  CapacityWeigher
    =====  ==========  =========  ================  ====================  ===================
    1000   10          100        20 (10 * 2)       second                1900: first
    500    500         0          1000 (500 * 2)    first                 1000: second
    =====  ==========  =========  ================  ====================  ===================

    Pools without a limit, because their capacity is unknown or infinite, come last.
    """

    options: ClassVar = (
        cfg.FloatOpt(
            "headroom_weight_multiplier",
            default=1.0,
            help="How much headroom counts when a pool is chosen: the size of the largest volume that the pool could "
            "take. Negative numbers fill one pool before the next.",
        ),
    )

    @property
    def multiplier(self) -> float:
        """The value of the option ``headroom_weight_multiplier``."""
        return float(self.conf.headroom_weight_multiplier)

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Return the size in GiB up to which each pool accepts volumes, rounded to two decimals.

        ``nan`` where there is no such limit, or where no volume is accepted.
        """
        return pools.evaluated(self._formulas[request.provisioning])

    @functools.cached_property
    def _formulas(self) -> Mapping[Provisioning | None, Formula]:
        calculation = Calculation(self.conf.over_provisioning_calculation)
        return {
            provisioning: functools.partial(_headroom, provisioning, calculation)
            for provisioning in (None, *Provisioning)
        }


def _headroom(provisioning: Provisioning | None, calculation: Calculation, pools: Pool | PoolTable) -> Floats:
    bound = arithmetic.bound(pools, judged_thin(pools.thin, pools.thick, provisioning), calculation)
    return elementwise.where(elementwise.finite(bound), elementwise.hundredths(bound), math.nan)
