# SPDX-License-Identifier: Apache-2.0
"""The REST API of the extension: drivers of clusters, and the nodes that take volumes."""

from oslo_config import cfg

from tonnage.api.extension_parts import ApiContext, ApiParts
from tonnage.extensions.kubernetes.api import csi_capacity
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries


def build(conf: cfg.ConfigOpts, context: ApiContext) -> ApiParts:
    """Return the routes, and the status of a patch of an outdated version."""
    resources = context.resources
    queries = NodeQueries(resources.database)
    return ApiParts(
        routes=[
            ("/csi-drivers", csi_capacity.Drivers(resources), None),
            ("/csi-drivers/{driver}", csi_capacity.Driver(resources), None),
            ("/csi-capacity/fit", csi_capacity.Fit(resources, queries), None),
            ("/csi-capacity/claims/{holder}", csi_capacity.Claims(resources, queries), None),
        ],
        statuses={driver_rows.VersionConflict: 409},
    )
