# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from tonnage.weighers.base import PoolWeigher


class MediaWeigher(PoolWeigher):
    """Prefers pools that report the medium which the scheduler hint ``media`` names."""

    options = (
        cfg.FloatOpt("media_weight_multiplier", default=1.0, help="Weight of the medium in the choice of a pool."),
    )

    @property
    def multiplier(self):
        return self.conf.media_weight_multiplier

    def weigh_pool(self, pool, request):
        medium = request.hints.get("media")
        return 1.0 if medium is not None and pool.capabilities.get("media") == medium else 0.0
