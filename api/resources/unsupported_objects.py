# SPDX-License-Identifier: Apache-2.0
"""The objects of Cinder that Tonnage does not have, such as snapshots.

:data:`TABLE` has a row for each type of objects. A list of them is empty, a request to create one gets status 501, and
a request for one gets status 404.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import falcon
from sqlalchemy import orm

from tonnage.api.auth import policies
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http import faults, list_query, microversions
from tonnage.api.http.annotations import Route, operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.capacity import errors
from tonnage.ledger.catalog import volume_types

_LIST_QUERY = Query(flags=("all_tenants", "with_count"), other_parameters="ignored")


class Rules(NamedTuple):
    """The policy rules for lists, for requests for one object, and for all other requests."""

    list: str = policies.UNSUPPORTED
    show: str = policies.UNSUPPORTED
    change: str = policies.UNSUPPORTED


_RULES = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedObjects:
    """A type of objects.

    ``path`` is the path of its list, and ``object_id`` the name of the parameter that follows in the path of an object.
    ``key`` is the key of the list in the response, empty for a response without keys. ``subject`` begins the sentence
    that refuses a new object, and ``alternative`` ends it. ``missing`` names an object by the parameters of its path.
    ``since`` is the minor number of the first microversion with these paths. With ``replaceable``, ``PUT`` creates
    objects as well. ``check_owner`` raises NotFound if the object of the core that the path names is not there.
    """

    path: str
    object_id: str = "item_id"
    key: str
    subject: str
    alternative: str
    missing: str
    rules: Rules = _RULES
    since: int = 0
    replaceable: bool = False
    check_owner: Callable[[orm.Session, Mapping[str, str]], object] | None = None


_COPY = "copy a volume with source_volid"
_TRANSFER = "clone a volume with source_volid as an administrator"
_GROUPS = "use /groups"

TABLE = (
    UnsupportedObjects(
        path="snapshots",
        key="snapshots",
        subject="Snapshots are",
        alternative=_COPY,
        missing="Snapshot {item_id}",
        rules=Rules(policies.SNAPSHOT_GET_ALL, policies.SNAPSHOT_GET, policies.SNAPSHOT_CREATE),
    ),
    UnsupportedObjects(
        path="backups",
        key="backups",
        subject="Backups are",
        alternative=_COPY,
        missing="Backup {item_id}",
        rules=Rules(policies.BACKUP_GET_ALL, policies.BACKUP_GET, policies.BACKUP_CREATE),
    ),
    UnsupportedObjects(
        path="group_snapshots",
        key="group_snapshots",
        subject="Snapshots of groups are",
        alternative="copy the volumes with source_volid",
        missing="GroupSnapshot {item_id}",
        rules=Rules(policies.GROUP_SNAPSHOT_GET_ALL, policies.GROUP_SNAPSHOT_GET, policies.GROUP_SNAPSHOT_CREATE),
        since=microversions.GROUP_SNAPSHOTS,
    ),
    UnsupportedObjects(
        path="attachments",
        key="attachments",
        subject="Attachments are",
        alternative="Tonnage does not attach volumes to servers",
        missing="Attachment {item_id}",
        since=microversions.ATTACHMENTS,
    ),
    UnsupportedObjects(
        path="os-volume-transfer",
        key="transfers",
        subject="Transfers are",
        alternative=_TRANSFER,
        missing="Transfer {item_id}",
    ),
    UnsupportedObjects(
        path="volume-transfers",
        key="transfers",
        subject="Transfers are",
        alternative=_TRANSFER,
        missing="Transfer {item_id}",
        since=microversions.VOLUME_TRANSFERS,
    ),
    UnsupportedObjects(
        path="clusters",
        key="clusters",
        subject="Clusters are",
        alternative="a second agent waits for the storage of the first one instead",
        missing="Cluster {item_id}",
        since=microversions.CLUSTERS,
        replaceable=True,
    ),
    UnsupportedObjects(
        path="default-types",
        key="default_types",
        subject="Default types of projects are",
        alternative="the option default_volume_type holds for all projects",
        missing="DefaultType {item_id}",
        since=microversions.DEFAULT_TYPES,
        replaceable=True,
    ),
    UnsupportedObjects(
        path="consistencygroups",
        key="consistencygroups",
        subject="Consistency groups are",
        alternative=_GROUPS,
        missing="ConsistencyGroup {item_id}",
    ),
    UnsupportedObjects(
        path="cgsnapshots",
        key="cgsnapshots",
        subject="Snapshots of consistency groups are",
        alternative=_GROUPS,
        missing="CgSnapshot {item_id}",
    ),
    UnsupportedObjects(
        path="os-snapshot-manage",
        key="manageable-snapshots",
        subject="Snapshots are",
        alternative=_COPY,
        missing="Snapshot {item_id}",
    ),
    UnsupportedObjects(
        path="manageable_snapshots",
        key="manageable-snapshots",
        subject="Snapshots are",
        alternative=_COPY,
        missing="Snapshot {item_id}",
        since=microversions.MANAGEABLE_SNAPSHOTS,
    ),
    UnsupportedObjects(
        path="types/{type_id}/encryption",
        object_id="key",
        key="",
        subject="The encryption of volumes is",
        alternative="use a driver whose storage encrypts",
        missing="Volume type encryption for type {type_id}",
        rules=Rules(policies.TYPE_ENCRYPTION, policies.TYPE_ENCRYPTION, policies.TYPE_ENCRYPTION),
        check_owner=lambda session, ids: volume_types.get(session, ids["type_id"]),
    ),
)


class UnsupportedResource:
    """The paths of one type of objects: its list, the list with details, and an object."""

    def __init__(self, context: ResourceContext, objects: UnsupportedObjects) -> None:
        self._context, self._objects = context, objects

    @operation({200: dict[str, list[dict[str, Any]] | int]}, query=_LIST_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response, **ids: str) -> None:
        """Return an empty list."""
        self._require(req, self._objects.rules.list)
        self._check_owner(ids)
        key = self._objects.key
        counted = list_query.boolean(_LIST_QUERY.read(req), "with_count") and req.at_least(
            microversions.VOLUME_LIST_COUNT
        )
        resp.media = {key: [], **({"count": 0} if counted else {})} if key else {}

    on_get_detail = on_get

    @operation({}, errors=(404, 501))
    def on_post(self, req: Request, resp: falcon.Response, **ids: str) -> None:
        """Reject the request with status 501."""
        self._require(req, self._objects.rules.change)
        self._check_owner(ids)
        raise self._refusal()

    @operation({}, errors=(404,))
    def on_get_object(self, req: Request, resp: falcon.Response, **ids: str) -> None:
        """Reject the request with status 404."""
        self._require(req, self._objects.rules.show)
        raise self._missing(ids)

    @operation({}, errors=(404, 501))
    def on_put_object(self, req: Request, resp: falcon.Response, **ids: str) -> None:
        """Reject the request with status 404, or 501 if it would create the object."""
        self._require(req, self._objects.rules.change)
        raise self._refusal() if self._objects.replaceable else self._missing(ids)

    @operation({}, errors=(404, 501))
    def on_post_object(self, req: Request, resp: falcon.Response, **ids: str) -> None:
        """Reject an action of the object type, such as ``/backups/import_record``, with status 501."""
        self._require(req, self._objects.rules.change)
        raise self._refusal()

    @operation({}, errors=(404,))
    def on_delete_object(self, req: Request, resp: falcon.Response, **ids: str) -> None:
        """Reject the request with status 404."""
        self._require(req, self._objects.rules.change)
        raise self._missing(ids)

    def _require(self, req: Request, rule: str) -> None:
        microversions.require(req, self._objects.since)
        self._context.policy.require(req.context.identity, rule)

    def _check_owner(self, ids: Mapping[str, str]) -> None:
        if self._objects.check_owner is not None:
            with self._context.database.reading() as session:
                self._objects.check_owner(session, ids)

    def _refusal(self) -> faults.NotSupported:
        return faults.NotSupported(f"{self._objects.subject} not supported: {self._objects.alternative}.")

    def _missing(self, ids: Mapping[str, str]) -> errors.NotFound:
        return errors.NotFound(f"{self._objects.missing.format(**ids)} could not be found.")


def routes(context: ResourceContext) -> list[Route]:
    """Return the routes of all types of objects."""
    paths: list[Route] = []
    for objects in TABLE:
        resource, path = UnsupportedResource(context, objects), f"/{objects.path}"
        paths += [(path, resource, None), (f"{path}/{{{objects.object_id}}}", resource, "object")]
        if objects.key:
            paths.append((f"{path}/detail", resource, "detail"))
    return paths
