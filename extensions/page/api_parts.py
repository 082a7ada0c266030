# SPDX-License-Identifier: Apache-2.0
"""The REST API of the extension: the files of the page, and the figures that it shows."""

from dataclasses import dataclass

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.api.extension_parts import ApiContext, ApiParts
from tonnage.extensions.page import capacity_overview, ledger_resources, overview_resources, static_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """The seconds for which results are shown to all users before they are computed again."""

    #: To read 10,000 pools takes half a second of processor.
    overview: float = 15.0
    pools_of_type: float = 30.0
    ledger_check: float = 60.0


LIFETIMES = Lifetimes()


def build(conf: cfg.ConfigOpts, context: ApiContext) -> ApiParts:
    """Return the routes and the files."""
    resources = context.resources
    overview = capacity_overview.shared_overview(
        resources.database,
        conf.service_down_time,
        context.health_reasons,
        context.pool_forecasts,
        LIFETIMES.overview,
    )
    return ApiParts(
        routes=[
            ("/capacity-overview", overview_resources.Summary(resources, overview), None),
            ("/capacity-overview/pools", overview_resources.Pools(resources, overview), None),
            ("/capacity-overview/backends", overview_resources.Backends(resources, overview), None),
            ("/capacity-overview/fill", overview_resources.Fill(resources, overview), None),
            ("/capacity-overview/pool", overview_resources.Pool(resources, overview), None),
            ("/capacity-overview/types", ledger_resources.Types(resources), None),
            ("/capacity-overview/type", ledger_resources.Type(resources, LIFETIMES.pools_of_type), None),
            ("/capacity-overview/ledger", ledger_resources.Ledger(resources, LIFETIMES.ledger_check), None),
            ("/capacity-overview/refusals", ledger_resources.Refusals(resources), None),
        ],
        files=static_files.routes(conf.auth_strategy, list(enabled_extensions.enabled(conf))),
    )
