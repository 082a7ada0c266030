# SPDX-License-Identifier: Apache-2.0
"""The extensions of the API: those that are served, and those of Cinder that Tonnage does not have.

A list of the latter is empty, and a request to create one is answered 501.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import falcon

from tonnage.api.auth import policies
from tonnage.api.http import faults, microversions, pagination
from tonnage.api.http.pagination import Query
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
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
        """List the filters of each list; ``~`` after a name: the filter also matches a part of the value."""
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


_LIST_QUERY = Query(flags=("all_tenants", "with_count"), more="ignored")


@dataclass(frozen=True, slots=True)
class UnsupportedKind:
    """A kind of object that Tonnage does not have: its names, and the policy rules of the calls for it."""

    one: str
    many: str
    list_rule: str
    show_rule: str
    create_rule: str
    instead: str = "copy a volume with source_volid"
    since: int = 0


SNAPSHOTS = UnsupportedKind(
    "Snapshot", "snapshots", policies.SNAPSHOT_GET_ALL, policies.SNAPSHOT_GET, policies.SNAPSHOT_CREATE
)
BACKUPS = UnsupportedKind("Backup", "backups", policies.BACKUP_GET_ALL, policies.BACKUP_GET, policies.BACKUP_CREATE)
GROUP_SNAPSHOTS = UnsupportedKind(
    "GroupSnapshot",
    "group_snapshots",
    policies.GROUP_SNAPSHOT_GET_ALL,
    policies.GROUP_SNAPSHOT_GET,
    policies.GROUP_SNAPSHOT_CREATE,
    instead="copy the volumes with source_volid",
    since=microversions.GROUP_SNAPSHOTS,
)


class UnsupportedCollection:
    """``/snapshots``, ``/backups`` or ``/group_snapshots``."""

    def __init__(self, tools: Tools, kind: UnsupportedKind) -> None:
        self._tools, self._kind = tools, kind

    @operation({200: dict[str, list[dict[str, Any]] | int]}, query=_LIST_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Answer an empty list."""
        microversions.require(req, self._kind.since)
        self._tools.policy.require(req.context.identity, self._kind.list_rule)
        counted = pagination.flag(_LIST_QUERY.read(req), "with_count") and req.at_least(microversions.VOLUME_LIST_COUNT)
        resp.media = {self._kind.many: [], **({"count": 0} if counted else {})}

    on_get_detail = on_get

    @operation({}, errors=(404, 501))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Answer 501."""
        microversions.require(req, self._kind.since)
        self._tools.policy.require(req.context.identity, self._kind.create_rule)
        named = self._kind.many.replace("_", " ").capitalize()
        faults.write(resp, 501, f"{named} are not supported: {self._kind.instead}.")


class UnsupportedItem:
    """``/snapshots/{item_id}``, ``/backups/{item_id}`` or ``/group_snapshots/{item_id}``."""

    def __init__(self, tools: Tools, kind: UnsupportedKind) -> None:
        self._tools, self._kind = tools, kind

    @operation({200: None})
    def on_get(self, req: Request, resp: falcon.Response, item_id: str) -> None:
        """Answer 404."""
        self._tools.policy.require(req.context.identity, self._kind.show_rule)
        raise errors.NotFound(f"{self._kind.one} {item_id} could not be found.")


class Encryption:
    """``/types/{type_id}/encryption``: no volume type is encrypted."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: dict[str, str]})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Answer an empty encryption."""
        self._tools.policy.require(req.context.identity, policies.TYPE_ENCRYPTION)
        with self._tools.database.reading() as session:
            volume_types.get(session, type_id)
        resp.media = {}
