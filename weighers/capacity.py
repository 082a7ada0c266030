# SPDX-License-Identifier: Apache-2.0
"""Weigher that spreads volumes by free capacity."""

import functools
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


class CapacityWeigher(Weigher):
    """Prefers the pool with the most free capacity: virtual for thin volumes, physical for thick ones.

    Follows the active ``over_provisioning_calculation``. Pools whose total or free capacity is unknown or infinite come
    last.
    """

    options: ClassVar = (
        cfg.FloatOpt(
            "capacity_weight_multiplier",
            default=1.0,
            help="How much free capacity counts when a pool is chosen. Negative numbers fill one pool before the next.",
        ),
    )

    @property
    def multiplier(self) -> float:
        """The value of the option ``capacity_weight_multiplier``."""
        return float(self.conf.capacity_weight_multiplier)

    def weigh(self, pools: PoolTable, request: Request) -> Weights:
        """Return the virtual free capacity in GiB, less in-flight capacity, rounded to two decimals.

        Reports have no more decimals. Further ones are rounding errors, which scaling could make as large as a
        difference of a thousand GiB.
        """
        return pools.evaluated(self._formulas[request.provisioning])

    @functools.cached_property
    def _formulas(self) -> Mapping[Provisioning | None, Formula]:
        calculation = Calculation(self.conf.over_provisioning_calculation)
        return {
            provisioning: functools.partial(_virtual_free, provisioning, calculation)
            for provisioning in (None, *Provisioning)
        }


def _virtual_free(provisioning: Provisioning | None, calculation: Calculation, pools: Pool | PoolTable) -> Floats:
    thin = judged_thin(pools.thin, pools.thick, provisioning)
    return elementwise.hundredths(arithmetic.virtual_free(pools, thin, calculation))
