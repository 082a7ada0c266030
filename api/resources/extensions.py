# SPDX-License-Identifier: Apache-2.0
"""What this API can do, for clients that ask before they use it."""

from collections.abc import Collection, Mapping

import falcon

from tonnage.api.http import microversions
from tonnage.api.http.pagination import Query
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import operation
from tonnage.api.schemas import response_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import groups, user_messages, volume_types, volumes

#: Parts of the API that are extensions in Cinder, by the aliases that clients look for.
_EXTENSIONS: Mapping[str, str] = {
    "OS-SCH-HNT": "Hints for the scheduler.",
    "capabilities": "What backends can do.",
    "os-admin-actions": "Migrating, resetting and force-deleting volumes.",
    "os-availability-zone": "Availability zones.",
    "os-extended-services": "Why services are disabled.",
    "os-hosts": "Hosts.",
    "os-quota-class-sets": "Quotas for all projects.",
    "os-quota-sets": "Quotas of projects.",
    "os-services": "Schedulers and backends.",
    "os-types-extra-specs": "Extra specs of volume types.",
    "os-types-manage": "Creating, changing and deleting volume types.",
    "os-used-limits": "What projects have and use.",
    "os-vol-host-attr": "The pool that a volume is in.",
    "os-vol-mig-status-attr": "How the migration of a volume goes.",
    "os-vol-tenant-attr": "The project that a volume belongs to.",
    "os-volume-actions": "Extending and retyping volumes.",
    "os-volume-manage": "Taking over what is on a storage.",
    "os-volume-type-access": "Projects that may use private volume types.",
    "os-volume-unmanage": "Forgetting volumes and leaving them on the storage.",
    "qos-specs": "What volumes of some types are to get.",
    "scheduler-stats": "Pools.",
}

_FILTERS: Mapping[str, Collection[str]] = {
    "group": groups.FILTERS,
    "message": user_messages.FILTERS,
    "pool": ("name", "volume_type"),
    "type": volume_types.FILTERS | {"is_public"},
    "volume": volumes.FILTERS - {"name"},
}

_QUERY = Query(filters=("resource",), more="ignored")


class Extensions:
    """``/extensions``, open to everybody."""

    @operation({200: response_bodies.Extensions})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the extensions of Cinder's API that are served."""
        resp.media = response_bodies.Extensions(
            [response_bodies.Extension(alias, alias, text) for alias, text in sorted(_EXTENSIONS.items())]
        )


class ResourceFilters:
    """``/resource_filters``, from 3.33 on and open to everybody."""

    @operation({200: response_bodies.ResourceFilters}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Tell what lists can be narrowed down by; ``~`` after a name: also by a part of it."""
        if not req.at_least(microversions.RESOURCE_FILTERS):
            raise errors.NotFound("The resource could not be found.")
        wanted = _QUERY.read(req).get("resource")
        resp.media = response_bodies.ResourceFilters(
            [
                response_bodies.ResourceFilter(
                    resource,
                    sorted(
                        f"{name}~" if f"{name}~" in volumes.FILTERS and resource == "volume" else name for name in names
                    ),
                )
                for resource, names in _FILTERS.items()
                if wanted in (None, resource)
            ]
        )
