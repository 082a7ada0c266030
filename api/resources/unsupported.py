# SPDX-License-Identifier: Apache-2.0
"""What Tonnage does not do, and clients ask about all the same: there are none, and making one answers 501."""

from dataclasses import dataclass
from typing import Any

import falcon

from tonnage.api.auth import policies
from tonnage.api.http import faults, microversions, pagination
from tonnage.api.http.pagination import Query
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.capacity import errors
from tonnage.ledger.catalog import volume_types

_QUERY = Query(flags=("all_tenants", "with_count"), more="ignored")


@dataclass(frozen=True, slots=True)
class Kind:
    """What there is none of: its names, and the rules that say who may ask."""

    one: str
    many: str
    list_rule: str
    show_rule: str
    create_rule: str
    instead: str = "copy a volume with source_volid"
    since: int = 0


SNAPSHOTS = Kind("Snapshot", "snapshots", policies.SNAPSHOT_GET_ALL, policies.SNAPSHOT_GET, policies.SNAPSHOT_CREATE)
BACKUPS = Kind("Backup", "backups", policies.BACKUP_GET_ALL, policies.BACKUP_GET, policies.BACKUP_CREATE)
GROUP_SNAPSHOTS = Kind(
    "GroupSnapshot",
    "group_snapshots",
    policies.GROUP_SNAPSHOT_GET_ALL,
    policies.GROUP_SNAPSHOT_GET,
    policies.GROUP_SNAPSHOT_CREATE,
    instead="copy the volumes with source_volid",
    since=microversions.GROUP_SNAPSHOTS,
)


class Collection:
    """``/snapshots``, ``/backups`` or ``/group_snapshots``."""

    def __init__(self, tools: Tools, kind: Kind) -> None:
        self._tools, self._kind = tools, kind

    @operation({200: dict[str, list[dict[str, Any]] | int]}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List them: there are none."""
        microversions.require(req, self._kind.since)
        self._tools.policy.require(req.context.identity, self._kind.list_rule)
        counted = pagination.flag(_QUERY.read(req), "with_count") and req.at_least(microversions.VOLUME_LIST_COUNT)
        resp.media = {self._kind.many: [], **({"count": 0} if counted else {})}

    on_get_detail = on_get

    @operation({}, errors=(404, 501))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Answer that there is no such thing here."""
        microversions.require(req, self._kind.since)
        self._tools.policy.require(req.context.identity, self._kind.create_rule)
        named = self._kind.many.replace("_", " ").capitalize()
        faults.write(resp, 501, f"{named} are not supported: {self._kind.instead}.")


class Item:
    """``/snapshots/{item_id}``, ``/backups/{item_id}`` or ``/group_snapshots/{item_id}``."""

    def __init__(self, tools: Tools, kind: Kind) -> None:
        self._tools, self._kind = tools, kind

    @operation({200: None})
    def on_get(self, req: Request, resp: falcon.Response, item_id: str) -> None:
        """Answer 404: there are none."""
        self._tools.policy.require(req.context.identity, self._kind.show_rule)
        raise errors.NotFound(f"{self._kind.one} {item_id} could not be found.")


class Encryption:
    """``/types/{type_id}/encryption``: nothing is encrypted."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: dict[str, str]})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Tell how volumes of a type are encrypted: they are not."""
        self._tools.policy.require(req.context.identity, policies.TYPE_ENCRYPTION)
        with self._tools.database.reading() as session:
            volume_types.get(session, type_id)
        resp.media = {}
