# SPDX-License-Identifier: Apache-2.0
"""Groups of volumes on the same backend, since microversion 3.13."""

from collections.abc import Sequence
from typing import Any

import falcon
from oslo_context.context import RequestContext

from tonnage.api.auth import policies
from tonnage.api.context import views
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.context.volume_requests import RequestReader
from tonnage.api.http import faults, list_query, microversions
from tonnage.api.http.annotations import operation
from tonnage.api.http.body import convert, only_key
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas import group_bodies as bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import group_types, groups
from tonnage.ledger.claims import group_backends
from tonnage.ledger.locks import heartbeats
from tonnage.quotas import group_limit as quota
from tonnage.quotas.options import Settings
from tonnage.rpc import contract
from tonnage.rpc.messages import DeleteVolume

_QUERY = Query(sort_keys=groups.SORT_KEYS, flags=("all_tenants", "list_volume"), filters=groups.FILTERS)
_SHOW_QUERY = Query(flags=("list_volume",), other_parameters="ignored")


class _Resource:
    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    def _authorized_group(self, req: Request, group_id: str, rule: str) -> groups.GroupView:
        """Return a group that the user can see, if the policy rule allows the call.

        Raises :class:`~tonnage.capacity.errors.NotFound` for a missing group and for one of another project.
        """
        microversions.require(req, microversions.GROUPS)
        identity = req.context.identity
        with self._context.database.reading() as session:
            group = groups.get(session, group_id, self._context.policy.visible_project(identity))
        self._context.policy.require(identity, rule, group.row.project_id)
        return group


class _ShownGroups(_Resource):
    """``default_zone`` is the availability zone of groups without one."""

    def __init__(self, context: ResourceContext, default_zone: str) -> None:
        super().__init__(context)
        self._default_zone = default_zone

    def _detail(
        self, req: Request, group_views: Sequence[groups.GroupView], *, volumes: bool
    ) -> list[bodies.GroupDetail]:
        owner = self._context.policy.allows(req.context.identity, policies.GROUP_PROJECT)
        details = [views.group(req, group, volumes=volumes, owner=owner) for group in group_views]
        for detail in details:
            detail.availability_zone = detail.availability_zone or self._default_zone
        return details


class Groups(_ShownGroups):
    """``/groups``."""

    def __init__(self, context: ResourceContext, default_zone: str, reader: RequestReader, settings: Settings) -> None:
        super().__init__(context, default_zone)
        self._reader, self._settings = reader, settings

    @operation({202: bodies.OneGroupSummary}, bodies=(bodies.CreateGroup,), errors=(404,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a group. Its first volume determines its backend."""
        microversions.require(req, microversions.GROUPS)
        context, identity = self._context, req.context.identity
        context.policy.require(identity, policies.GROUP_CREATE)
        sent = context.bodies.read(req, bodies.CreateGroup).group
        with context.database.reading() as session:
            group_type = group_types.find(session, sent.group_type, context.policy.visible_project(identity))
            self._check_zone(sent.availability_zone, heartbeats.load(session))
        new_group = groups.NewGroup(
            project_id=identity.project_id or "",
            user_id=identity.user_id or "",
            name=None if sent.name is None else sent.name.strip(),
            description=None if sent.description is None else sent.description.strip(),
            group_type_id=group_type.id,
            volume_type_ids={self._reader.type_id(name, identity) for name in sent.volume_types},
            availability_zone=sent.availability_zone or None,
        )
        created = quota.create(context.database, self._settings, new_group)
        resp.status = falcon.HTTP_202
        resp.media = bodies.OneGroupSummary(bodies.GroupSummary(id=created.id, name=created.name))

    @operation({200: bodies.GroupSummaries}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List groups with id and name."""
        group_views, links = self._page(req)
        shown = [bodies.GroupSummary(id=group.row.id, name=group.row.name) for group in group_views]
        resp.media = bodies.GroupSummaries(shown, links)

    @operation({200: bodies.GroupDetails}, query=_QUERY, errors=(404,))
    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        """List groups with details; since 3.25 with the ids of their volumes if ``list_volume`` is true."""
        group_views, links = self._page(req)
        volumes = list_query.boolean(_QUERY.read(req), "list_volume")
        resp.media = bodies.GroupDetails(self._detail(req, group_views, volumes=volumes), links)

    @operation({}, errors=(404, 501))
    def on_post_action(self, req: Request, resp: falcon.Response) -> None:
        """Reject the creation of a group from another group or from a snapshot with status 501."""
        microversions.require(req, microversions.GROUP_SNAPSHOTS)
        self._context.policy.require(req.context.identity, policies.GROUP_CREATE)
        raise faults.NotSupported("Groups from others are not supported: copy their volumes with source_volid.")

    def _page(self, req: Request) -> tuple[list[groups.GroupView], Any]:
        microversions.require(req, microversions.GROUPS)
        context, identity = self._context, req.context.identity
        context.policy.require(identity, policies.GROUP_GET_ALL)
        parameters = _QUERY.read(req)
        page = context.paginator.page(parameters)
        query = groups.Query(
            project_id=self._listed_project(parameters, identity), filters=_QUERY.select_filters(parameters)
        )
        with context.database.reading() as session:
            group_views = groups.page(session, query, page)
        return group_views, context.paginator.links(req, page, [group.row for group in group_views])

    def _listed_project(self, parameters: Any, identity: RequestContext) -> str | None:
        """Return the project whose groups are listed, None for all projects."""
        all_projects = list_query.boolean(parameters, "all_tenants") and self._context.policy.allows(
            identity, policies.IS_ADMIN
        )
        return None if all_projects else identity.project_id

    def _check_zone(self, zone: str | None, rows: Sequence[heartbeats.ServiceRow]) -> None:
        if zone and all(row.availability_zone != zone for row in rows):
            raise errors.InvalidInput(f"Availability zone '{zone}' is invalid.")


class Group(_ShownGroups):
    """``/groups/{group_id}``."""

    @operation({200: bodies.OneGroup}, query=_SHOW_QUERY)
    def on_get(self, req: Request, resp: falcon.Response, group_id: str) -> None:
        """Show a group; since 3.25 with the ids of its volumes if ``list_volume`` is true."""
        group = self._authorized_group(req, group_id, policies.GROUP_GET)
        volumes = list_query.boolean(_SHOW_QUERY.read(req), "list_volume")
        resp.media = bodies.OneGroup(*self._detail(req, [group], volumes=volumes))

    @operation({202: None}, bodies=(bodies.UpdateGroup,))
    def on_put(self, req: Request, resp: falcon.Response, group_id: str) -> None:
        """Change the name or the description of a group, add volumes to it or remove them."""
        group = self._authorized_group(req, group_id, policies.GROUP_UPDATE).row
        sent = self._context.bodies.read(req, bodies.UpdateGroup).group
        changes = groups.Changes(
            name=None if sent.name is None else sent.name.strip(),
            description=None if sent.description is None else sent.description.strip(),
            add=bodies.split_ids(sent.add_volumes),
            remove=bodies.split_ids(sent.remove_volumes),
        )
        self._context.database.run(groups.update, group.id, group.project_id, changes)
        resp.status = falcon.HTTP_202


class GroupActions(_Resource):
    """``/groups/{group_id}/action``."""

    @operation({202: None}, actions=bodies.GROUP_ACTIONS, errors=(501,))
    def on_post(self, req: Request, resp: falcon.Response, group_id: str) -> None:
        """Delete a group or, since 3.20, reset its status."""
        microversions.require(req, microversions.GROUPS)
        name, arguments = only_key(self._context.bodies.decode(req), bodies.GROUP_ACTIONS)
        if name == "delete":
            self._delete(req, group_id, convert(arguments, bodies.DeleteGroup))
        elif name in bodies.UNSUPPORTED_ACTIONS:
            microversions.require(req, microversions.GROUP_REPLICATION)
            self._authorized_group(req, group_id, policies.GROUP_UPDATE)
            raise faults.NotSupported("The replication of groups is not supported.")
        else:
            microversions.require(req, microversions.GROUP_RESET_STATUS)
            group = self._authorized_group(req, group_id, policies.GROUP_RESET_STATUS).row
            status = convert(arguments, bodies.ResetGroup).status
            self._context.database.run(groups.reset_status, group.id, status.lower())
        resp.status = falcon.HTTP_202

    def _delete(self, req: Request, group_id: str, sent: bodies.DeleteGroup) -> None:
        """Delete a group at once, or after its last volume. A client may repeat the call if the deletion fails."""
        group = self._authorized_group(req, group_id, policies.GROUP_DELETE).row
        context, request_id = self._context, req.context.identity.request_id
        volume_ids = context.database.run(
            groups.begin_deletion, group.id, group.project_id, with_volumes=bool(sent.delete_volumes)
        )
        for index, volume_id in enumerate(volume_ids):
            try:
                request = DeleteVolume(request_id=f"{request_id}.{index}", volume_id=volume_id)
                context.scheduler.call(contract.DELETE_VOLUME, request)
            except errors.NotFound:
                continue  # another request has deleted it
        if volume_ids:
            context.database.run(group_backends.purge)
