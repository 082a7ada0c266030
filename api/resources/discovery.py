# SPDX-License-Identifier: Apache-2.0
"""Discovery of the API: versions and the OpenAPI document without authentication, extensions, and filters of lists."""

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import falcon
from oslo_policy import policy

from tonnage.api.http import microversions
from tonnage.api.http.annotations import PublicResource, Route, operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.openapi import document as openapi_document
from tonnage.api.schemas import response_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import groups, user_messages, volume_types, volumes

#: The time of the newest microversion.
_UPDATED = "2026-11-01T00:00:00Z"


class Versions(PublicResource):
    """``GET /`` and ``GET /v3``."""

    def __init__(self, status: int) -> None:
        """``status`` is 300 for ``/``, which offers a choice of versions, and 200 for ``/v3``."""
        self._status = status

    @operation({200: response_bodies.Versions, 300: response_bodies.Versions})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the supported versions of the API."""
        resp.status = falcon.code_to_http_status(self._status)
        version = response_bodies.Version(
            id="v3.0",
            status="CURRENT",
            version=microversions.MAXIMUM,
            min_version=microversions.MINIMUM,
            updated=_UPDATED,
            links=[response_bodies.Link("self", f"{req.prefix}/v3/")],
            media_types=[
                response_bodies.MediaType("application/json", "application/vnd.openstack.volume+json;version=3")
            ],
        )
        resp.media = response_bodies.Versions([version])


PATH = "/v3/openapi.json"


class OpenApi(PublicResource):
    """``/v3/openapi.json``, without authentication. The first request generates the document."""

    def __init__(self, routes: Sequence[Route], rules: Sequence[policy.RuleDefault], auth_strategy: str) -> None:
        self._routes = [*routes, (PATH, self, None)]
        self._rules, self._auth_strategy = rules, auth_strategy

    @operation({200: dict[str, Any]})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the OpenAPI 3.1 document of the API."""
        resp.media = self.document

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """The document, which includes its own path."""
        return openapi_document.document(self._routes, self._rules, self._auth_strategy)


#: Supported parts of the API that are extensions in Cinder, by the aliases that clients check: names in
#: Cinder and descriptions.
_EXTENSIONS: Mapping[str, tuple[str, str]] = {
    "OS-SCH-HNT": ("SchedulerHints", "Hints for the scheduler."),
    "capabilities": ("Capabilities", "Capabilities of backends."),
    "os-admin-actions": ("AdminActions", "Migrating, resetting and force-deleting volumes."),
    "os-availability-zone": ("AvailabilityZones", "Availability zones."),
    "os-extended-services": ("ExtendedServices", "Why services are disabled."),
    "os-hosts": ("Hosts", "Hosts."),
    "os-quota-class-sets": ("QuotaClasses", "Quotas for all projects."),
    "os-quota-sets": ("Quotas", "Quotas of projects."),
    "os-services": ("Services", "Schedulers and backends."),
    "os-types-extra-specs": ("TypesExtraSpecs", "Extra specs of volume types."),
    "os-types-manage": ("TypesManage", "Creating, changing and deleting volume types."),
    "os-used-limits": ("UsedLimits", "Limits of projects, and their use."),
    "os-vol-host-attr": ("VolumeHostAttribute", "The pool that a volume is in."),
    "os-vol-mig-status-attr": ("VolumeMigStatusAttribute", "How the migration of a volume goes."),
    "os-vol-tenant-attr": ("VolumeTenantAttribute", "The project that a volume belongs to."),
    "os-volume-actions": ("VolumeActions", "Extending and retyping volumes."),
    "os-volume-manage": ("VolumeManage", "Taking over volumes that are on a storage already."),
    "os-volume-type-access": ("VolumeTypeAccess", "Projects that may use private volume types."),
    "os-volume-unmanage": ("VolumeUnmanage", "Forgetting volumes and leaving them on the storage."),
    "qos-specs": ("Qos_specs_manage", "Quality of service of volume types."),
    "scheduler-stats": ("Scheduler_stats", "Pools."),
}

_FILTERS: Mapping[str, Collection[str]] = {
    "group": groups.FILTERS,
    "message": user_messages.FILTERS,
    "pool": ("name", "volume_type"),
    "type": volume_types.FILTERS | {"is_public"},
    "volume": volumes.FILTERS - {"name"},
}

_QUERY = Query(filters=("resource",), other_parameters="ignored")


class Extensions:
    """``/extensions``, for all users."""

    @operation({200: response_bodies.Extensions})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the supported extensions of Cinder's API."""
        resp.media = response_bodies.Extensions(
            [response_bodies.Extension(alias, name, text) for alias, (name, text) in sorted(_EXTENSIONS.items())]
        )


class ResourceFilters:
    """``/resource_filters``, for all users since microversion 3.33."""

    @operation({200: response_bodies.ResourceFilters}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the filters of each list. A filter whose name ends with ``~`` also matches parts of values."""
        if not req.at_least(microversions.RESOURCE_FILTERS):
            raise errors.NotFound("The resource could not be found.")
        requested_resource = _QUERY.read(req).get("resource")
        resp.media = response_bodies.ResourceFilters(
            [
                response_bodies.ResourceFilter(
                    resource,
                    sorted(
                        f"{name}~" if f"{name}~" in volumes.FILTERS and resource == "volume" else name for name in names
                    ),
                )
                for resource, names in _FILTERS.items()
                if requested_resource in (None, resource)
            ]
        )
