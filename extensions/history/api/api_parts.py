# SPDX-License-Identifier: Apache-2.0
"""The REST API of the extension: the history of pools, forecasts, and refusals to come."""

import functools

from oslo_config import cfg

from tonnage.api.extension_parts import ApiContext, ApiParts
from tonnage.extensions.history.api import history_resources

#: Seconds for which forecasts are shown before they are read again. They are made once a day.
FORECASTS_LIFETIME = 300.0


def build(conf: cfg.ConfigOpts, context: ApiContext) -> ApiParts:
    """Return the routes, and the forecasts of pools for the views of other extensions."""
    resources = context.resources
    forecasts = history_resources.shared_forecasts(resources.database, FORECASTS_LIFETIME)
    return ApiParts(
        routes=[
            ("/capacity-overview/forecasts", history_resources.Forecasts(resources, forecasts), None),
            ("/capacity-overview/coming-refusals", history_resources.ComingRefusals(resources), None),
            ("/capacity-overview/history", history_resources.History(resources), None),
        ],
        pool_forecasts=functools.partial(history_resources.pool_forecasts, forecasts),
    )
