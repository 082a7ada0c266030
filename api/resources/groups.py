# SPDX-License-Identifier: Apache-2.0
"""Groups of volumes that stay on one backend together, from 3.13 on."""

from collections.abc import Sequence
from typing import Any

import falcon
from oslo_context.context import RequestContext

from tonnage.api.auth import policies
from tonnage.api.http import faults, list_query, microversions
from tonnage.api.http.body import convert, only_key
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.api.schemas import group_bodies as bodies
from tonnage.api.schemas import views
from tonnage.api.volume_requests import Requests
from tonnage.capacity import errors
from tonnage.ledger.catalog import group_types, groups
from tonnage.ledger.claims import group_backends
from tonnage.ledger.inventory import heartbeats
from tonnage.quotas import group_limit as quota
from tonnage.quotas.options import Settings
from tonnage.rpc.messages import DeleteVolume

_QUERY = Query(sort_keys=groups.SORT_KEYS, flags=("all_tenants", "list_volume"), filters=groups.FILTERS)
_SHOW_QUERY = Query(flags=("list_volume",), more="ignored")


class _Resource:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def _seen(self, req: Request, group_id: str, rule: str) -> groups.Shown:
        """Return a group that the asker can see and may do this to; one of another project is as good as absent."""
        microversions.require(req, microversions.GROUPS)
        identity = req.context.identity
        with self._tools.database.reading() as session:
            group = groups.get(session, group_id, self._tools.policy.reach(identity))
        self._tools.policy.require(identity, rule, group.row.project_id)
        return group

    def _detail(self, req: Request, found: Sequence[groups.Shown], *, volumes: bool) -> list[bodies.GroupDetail]:
        owner = self._tools.policy.allows(req.context.identity, policies.GROUP_PROJECT)
        return [views.group(req, group, volumes=volumes, owner=owner) for group in found]


class Groups(_Resource):
    """``/groups``."""

    def __init__(self, tools: Tools, requests: Requests, settings: Settings) -> None:
        super().__init__(tools)
        self._requests, self._settings = requests, settings

    @operation({202: bodies.OneGroupSummary}, bodies=(bodies.CreateGroup,), errors=(404,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a group. Its first volume decides on which backend it is."""
        microversions.require(req, microversions.GROUPS)
        tools, identity = self._tools, req.context.identity
        tools.policy.require(identity, policies.GROUP_CREATE)
        sent = tools.bodies.read(req, bodies.CreateGroup).group
        with tools.database.reading() as session:
            kind = group_types.find(session, sent.group_type, tools.policy.reach(identity))
            self._check_zone(sent.availability_zone, heartbeats.load(session))
        wanted = groups.NewGroup(
            project_id=identity.project_id or "",
            user_id=identity.user_id or "",
            name=None if sent.name is None else sent.name.strip(),
            description=None if sent.description is None else sent.description.strip(),
            group_type_id=kind.id,
            volume_type_ids={self._requests.type_id(name, identity) for name in sent.volume_types},
            availability_zone=sent.availability_zone or None,
        )
        made = quota.create(tools.database, self._settings, wanted)
        resp.status = falcon.HTTP_202
        resp.media = bodies.OneGroupSummary(bodies.GroupSummary(id=made.id, name=made.name))

    @operation({200: bodies.GroupSummaries}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List groups in short."""
        found, links = self._page(req)
        shown = [bodies.GroupSummary(id=group.row.id, name=group.row.name) for group in found]
        resp.media = bodies.GroupSummaries(shown, links)

    @operation({200: bodies.GroupDetails}, query=_QUERY, errors=(404,))
    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        """List groups in full; from 3.25 on with the ids of their volumes where ``list_volume`` says so."""
        found, links = self._page(req)
        volumes = list_query.flag(_QUERY.read(req), "list_volume")
        resp.media = bodies.GroupDetails(self._detail(req, found, volumes=volumes), links)

    @operation({}, errors=(404, 501))
    def on_post_action(self, req: Request, resp: falcon.Response) -> None:
        """Answer that no group is made from another one or from a snapshot of one."""
        microversions.require(req, microversions.GROUP_SNAPSHOTS)
        self._tools.policy.require(req.context.identity, policies.GROUP_CREATE)
        faults.write(resp, 501, "Groups from others are not supported: copy their volumes with source_volid.")

    def _page(self, req: Request) -> tuple[list[groups.Shown], Any]:
        microversions.require(req, microversions.GROUPS)
        tools, identity = self._tools, req.context.identity
        tools.policy.require(identity, policies.GROUP_GET_ALL)
        given = _QUERY.read(req)
        page = tools.lists.page(given)
        query = groups.Query(project_id=self._asked(given, identity), filters=_QUERY.chosen(given))
        with tools.database.reading() as session:
            found = groups.page(session, query, page)
        return found, tools.lists.links(req, page, [group.row for group in found])

    def _asked(self, given: Any, identity: RequestContext) -> str | None:
        everywhere = list_query.flag(given, "all_tenants") and self._tools.policy.allows(identity, policies.IS_ADMIN)
        return None if everywhere else identity.project_id

    def _check_zone(self, zone: str | None, rows: Sequence[heartbeats.ServiceRow]) -> None:
        if zone and all(row.availability_zone != zone for row in rows):
            raise errors.InvalidInput(f"Availability zone '{zone}' is invalid.")


class Group(_Resource):
    """``/groups/{group_id}``."""

    @operation({200: bodies.OneGroup}, query=_SHOW_QUERY)
    def on_get(self, req: Request, resp: falcon.Response, group_id: str) -> None:
        """Show a group; from 3.25 on with the ids of its volumes where ``list_volume`` says so."""
        group = self._seen(req, group_id, policies.GROUP_GET)
        volumes = list_query.flag(_SHOW_QUERY.read(req), "list_volume")
        resp.media = bodies.OneGroup(*self._detail(req, [group], volumes=volumes))

    @operation({202: None}, bodies=(bodies.UpdateGroup,))
    def on_put(self, req: Request, resp: falcon.Response, group_id: str) -> None:
        """Change a group's name or description, have volumes join it or leave it."""
        group = self._seen(req, group_id, policies.GROUP_UPDATE).row
        sent = self._tools.bodies.read(req, bodies.UpdateGroup).group
        changes = groups.Changes(
            name=None if sent.name is None else sent.name.strip(),
            description=None if sent.description is None else sent.description.strip(),
            add=bodies.named(sent.add_volumes),
            remove=bodies.named(sent.remove_volumes),
        )
        self._tools.database.run(groups.update, group.id, group.project_id, changes)
        resp.status = falcon.HTTP_202


class GroupActions(_Resource):
    """``/groups/{group_id}/action``."""

    @operation({202: None}, actions=bodies.GROUP_ACTIONS)
    def on_post(self, req: Request, resp: falcon.Response, group_id: str) -> None:
        """Delete a group or, from 3.20 on, declare its status."""
        microversions.require(req, microversions.GROUPS)
        name, arguments = only_key(self._tools.bodies.decode(req), bodies.GROUP_ACTIONS)
        if name == "delete":
            self._delete(req, group_id, convert(arguments, bodies.DeleteGroup))
        else:
            microversions.require(req, microversions.GROUP_RESET_STATUS)
            group = self._seen(req, group_id, policies.GROUP_RESET_STATUS).row
            status = convert(arguments, bodies.ResetGroup).status
            self._tools.database.run(groups.reset_status, group.id, status.lower())
        resp.status = falcon.HTTP_202

    def _delete(self, req: Request, group_id: str, sent: bodies.DeleteGroup) -> None:
        """Delete a group, at once or with the last of its volumes. Where a delete fails it can be asked for again."""
        group = self._seen(req, group_id, policies.GROUP_DELETE).row
        tools, asked = self._tools, req.context.identity.request_id
        volume_ids = tools.database.run(
            groups.begin_deletion, group.id, group.project_id, with_volumes=bool(sent.delete_volumes)
        )
        for number, volume_id in enumerate(volume_ids):
            try:
                tools.scheduler.delete(DeleteVolume(request_id=f"{asked}.{number}", volume_id=volume_id))
            except errors.NotFound:
                continue  # it has gone meanwhile
        if volume_ids:
            tools.database.run(group_backends.purge)
