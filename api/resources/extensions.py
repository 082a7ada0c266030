# SPDX-License-Identifier: Apache-2.0
"""The extensions of the API, and the object types of Cinder that Tonnage does not support.

A list of unsupported objects is empty, and a request to create one gets status 501.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import falcon

from tonnage.api.auth import policies
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http import faults, list_query, microversions
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas import response_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import groups, user_messages, volume_types, volumes

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


_LIST_QUERY = Query(flags=("all_tenants", "with_count"), other_parameters="ignored")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedType:
    """An object type that Tonnage does not support, with its path and the policy rules of its calls.

    ``key`` is the key of its lists, the path by default. ``since`` is the minor number of its first microversion.
    With ``replaceable``, ``PUT`` creates objects as well.
    """

    singular: str
    plural: str
    path: str
    key: str = ""
    list_rule: str = policies.UNSUPPORTED
    show_rule: str = policies.UNSUPPORTED
    create_rule: str = policies.UNSUPPORTED
    alternative: str = "copy a volume with source_volid"
    since: int = 0
    replaceable: bool = False

    @property
    def refusal(self) -> faults.NotSupported:
        """The error for a request to create an object."""
        return faults.NotSupported(f"{self.plural} are not supported: {self.alternative}.")


_ATTACH = "Tonnage does not attach volumes to servers"
_TRANSFER = "clone a volume with source_volid as an administrator"
_GROUPS = "use /groups"

SNAPSHOTS = UnsupportedType(
    singular="Snapshot",
    plural="Snapshots",
    path="snapshots",
    list_rule=policies.SNAPSHOT_GET_ALL,
    show_rule=policies.SNAPSHOT_GET,
    create_rule=policies.SNAPSHOT_CREATE,
)
BACKUPS = UnsupportedType(
    singular="Backup",
    plural="Backups",
    path="backups",
    list_rule=policies.BACKUP_GET_ALL,
    show_rule=policies.BACKUP_GET,
    create_rule=policies.BACKUP_CREATE,
)
GROUP_SNAPSHOTS = UnsupportedType(
    singular="GroupSnapshot",
    plural="Snapshots of groups",
    path="group_snapshots",
    list_rule=policies.GROUP_SNAPSHOT_GET_ALL,
    show_rule=policies.GROUP_SNAPSHOT_GET,
    create_rule=policies.GROUP_SNAPSHOT_CREATE,
    alternative="copy the volumes with source_volid",
    since=microversions.GROUP_SNAPSHOTS,
)
#: The object types of Cinder that Tonnage does not support.
UNSUPPORTED = (
    SNAPSHOTS,
    BACKUPS,
    GROUP_SNAPSHOTS,
    UnsupportedType(
        singular="Attachment",
        plural="Attachments",
        path="attachments",
        alternative=_ATTACH,
        since=microversions.ATTACHMENTS,
    ),
    UnsupportedType(
        singular="Transfer", plural="Transfers", path="os-volume-transfer", key="transfers", alternative=_TRANSFER
    ),
    UnsupportedType(
        singular="Transfer",
        plural="Transfers",
        path="volume-transfers",
        key="transfers",
        alternative=_TRANSFER,
        since=microversions.VOLUME_TRANSFERS,
    ),
    UnsupportedType(
        singular="Cluster",
        plural="Clusters",
        path="clusters",
        alternative="a second agent waits for the storage of the first one instead",
        since=microversions.CLUSTERS,
        replaceable=True,
    ),
    UnsupportedType(
        singular="DefaultType",
        plural="Default types of projects",
        path="default-types",
        key="default_types",
        alternative="the option default_volume_type holds for all projects",
        since=microversions.DEFAULT_TYPES,
        replaceable=True,
    ),
    UnsupportedType(
        singular="ConsistencyGroup", plural="Consistency groups", path="consistencygroups", alternative=_GROUPS
    ),
    UnsupportedType(
        singular="CgSnapshot", plural="Snapshots of consistency groups", path="cgsnapshots", alternative=_GROUPS
    ),
    UnsupportedType(singular="Snapshot", plural="Snapshots", path="os-snapshot-manage", key="manageable-snapshots"),
    UnsupportedType(
        singular="Snapshot",
        plural="Snapshots",
        path="manageable_snapshots",
        key="manageable-snapshots",
        since=microversions.MANAGEABLE_SNAPSHOTS,
    ),
)


class UnsupportedCollection:
    """The list of an object type that Tonnage does not support, such as ``/snapshots``."""

    def __init__(self, context: ResourceContext, object_type: UnsupportedType) -> None:
        self._context, self._object_type = context, object_type

    @operation({200: dict[str, list[dict[str, Any]] | int]}, query=_LIST_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Return an empty list."""
        microversions.require(req, self._object_type.since)
        self._context.policy.require(req.context.identity, self._object_type.list_rule)
        counted = list_query.boolean(_LIST_QUERY.read(req), "with_count") and req.at_least(
            microversions.VOLUME_LIST_COUNT
        )
        resp.media = {self._object_type.key or self._object_type.path: [], **({"count": 0} if counted else {})}

    on_get_detail = on_get

    @operation({}, errors=(404, 501))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Reject the request with status 501."""
        microversions.require(req, self._object_type.since)
        self._context.policy.require(req.context.identity, self._object_type.create_rule)
        raise self._object_type.refusal


class UnsupportedItem:
    """An object of a type that Tonnage does not support, such as ``/snapshots/{item_id}``."""

    def __init__(self, context: ResourceContext, object_type: UnsupportedType) -> None:
        self._context, self._object_type = context, object_type

    @operation({}, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response, item_id: str) -> None:
        """Reject the request with status 404."""
        self._reject(req, item_id, self._object_type.show_rule)

    @operation({}, errors=(404, 501))
    def on_put(self, req: Request, resp: falcon.Response, item_id: str) -> None:
        """Reject the request with status 404, or 501 if it would create the object."""
        if self._object_type.replaceable:
            microversions.require(req, self._object_type.since)
            self._context.policy.require(req.context.identity, self._object_type.create_rule)
            raise self._object_type.refusal
        self._reject(req, item_id, self._object_type.create_rule)

    @operation({}, errors=(404, 501))
    def on_post(self, req: Request, resp: falcon.Response, item_id: str) -> None:
        """Reject an action of the object type, such as ``/backups/import_record``, with status 501."""
        microversions.require(req, self._object_type.since)
        self._context.policy.require(req.context.identity, self._object_type.create_rule)
        raise self._object_type.refusal

    @operation({}, errors=(404,))
    def on_delete(self, req: Request, resp: falcon.Response, item_id: str) -> None:
        """Reject the request with status 404."""
        self._reject(req, item_id, self._object_type.create_rule)

    def _reject(self, req: Request, item_id: str, rule: str) -> None:
        microversions.require(req, self._object_type.since)
        self._context.policy.require(req.context.identity, rule)
        raise errors.NotFound(f"{self._object_type.singular} {item_id} could not be found.")


class VolumeEncryption:
    """``/volumes/{volume_id}/encryption``: no volume is encrypted."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: dict[str, str | None]})
    def on_get(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Return that the volume has no key."""
        self._context.authorized_volume(req, volume_id, policies.VOLUME_ENCRYPTION)
        resp.media = {"encryption_key_id": None}


class Encryption:
    """``/types/{type_id}/encryption``: no volume type is encrypted."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: dict[str, str]})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Return an empty object, as no volume type is encrypted."""
        self._require_type(req, type_id)
        resp.media = {}

    @operation({}, errors=(501,))
    def on_post(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Reject the request with status 501."""
        self._require_type(req, type_id)
        raise faults.NotSupported("The encryption of volumes is not supported: use a driver whose storage encrypts.")

    def _require_type(self, req: Request, type_id: str) -> None:
        self._context.policy.require(req.context.identity, policies.TYPE_ENCRYPTION)
        with self._context.database.reading() as session:
            volume_types.get(session, type_id)


class EncryptionItem:
    """``/types/{type_id}/encryption/{key}``: nothing, as no volume type is encrypted."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({}, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response, type_id: str, key: str) -> None:
        """Reject the request with status 404."""
        self._context.policy.require(req.context.identity, policies.TYPE_ENCRYPTION)
        raise errors.NotFound(f"Volume type encryption for type {type_id} could not be found.")

    on_put = on_delete = on_get
