# SPDX-License-Identifier: Apache-2.0
"""Group types and their specs, from 3.11 on."""

import falcon

from tonnage.api.auth import policies
from tonnage.api.http import booleans, list_query, microversions
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import ResourceContext
from tonnage.api.schemas import group_bodies as bodies
from tonnage.api.schemas import views
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import group_types

_QUERY = Query(
    sort_keys=group_types.SORT_KEYS,
    words={"is_public": (*booleans.WORDS, "none", "None", "NONE")},
    other_parameters="ignored",
)


class _Resource:
    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    def _shown(self, req: Request, kind: models.GroupType) -> bodies.GroupTypeDetail:
        specs = self._context.policy.allows(req.context.identity, policies.GROUP_TYPE_SPECS)
        return views.group_type(kind, specs=specs)

    def _visible_project(self, req: Request) -> str | None:
        return self._context.policy.visible_project(req.context.identity)

    def _get(self, req: Request, type_id: str) -> models.GroupType:
        with self._context.database.reading() as session:
            return group_types.get(session, type_id, self._visible_project(req))


class GroupTypes(_Resource):
    """``/group_types``. Everybody may list them, as in Cinder."""

    @operation({200: bodies.GroupTypes}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List public group types, or for administrators as ``is_public`` says (true, false, none)."""
        microversions.require(req, microversions.GROUP_TYPES)
        context = self._context
        given = _QUERY.read(req)
        project_id, page = self._visible_project(req), context.paginator.page(given)
        wanted = given.get("is_public", "true")
        is_public = None if wanted.lower() == "none" else list_query.boolean({"is_public": wanted}, "is_public")
        with context.database.reading() as session:
            found = group_types.page(session, is_public if project_id is None else True, page, project_id)
        shown = [self._shown(req, kind) for kind in found]
        resp.media = bodies.GroupTypes(shown, context.paginator.links(req, page, found))

    @operation({202: bodies.OneGroupType}, bodies=(bodies.CreateGroupType,), errors=(404, 409))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a group type."""
        microversions.require(req, microversions.GROUP_TYPES)
        context = self._context
        context.policy.require(req.context.identity, policies.GROUP_TYPE_CREATE)
        sent = context.bodies.read(req, bodies.CreateGroupType).group_type
        kind = context.database.run(
            group_types.create, sent.name, sent.description, bool(sent.is_public), sent.group_specs
        )
        resp.status = falcon.HTTP_202
        resp.media = bodies.OneGroupType(self._shown(req, kind))


class DefaultGroupType(_Resource):
    """``/group_types/default``."""

    @operation({}, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Answer that there is no group type that counts where none is named."""
        microversions.require(req, microversions.GROUP_TYPES)
        raise errors.NotFound("Default group type can not be found.")


class GroupType(_Resource):
    """``/group_types/{group_type_id}``."""

    @operation({200: bodies.OneGroupType})
    def on_get(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Show a group type."""
        microversions.require(req, microversions.GROUP_TYPES)
        resp.media = bodies.OneGroupType(self._shown(req, self._get(req, group_type_id)))

    @operation({200: bodies.OneGroupType}, bodies=(bodies.UpdateGroupType,), errors=(409,))
    def on_put(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Change a group type."""
        microversions.require(req, microversions.GROUP_TYPES)
        context = self._context
        context.policy.require(req.context.identity, policies.GROUP_TYPE_UPDATE)
        sent = context.bodies.read(req, bodies.UpdateGroupType).group_type
        changes = group_types.Changes(name=sent.name, description=sent.description, is_public=sent.is_public)
        kind = context.database.run(group_types.update, group_type_id, changes)
        resp.media = bodies.OneGroupType(self._shown(req, kind))

    @operation({202: None})
    def on_delete(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Remove a group type that no group has."""
        microversions.require(req, microversions.GROUP_TYPES)
        self._context.policy.require(req.context.identity, policies.GROUP_TYPE_DELETE)
        self._context.database.remove(group_types.delete, group_type_id)
        resp.status = falcon.HTTP_202


class GroupSpecs(_Resource):
    """``/group_types/{group_type_id}/group_specs``."""

    @operation({200: bodies.SetGroupSpecs})
    def on_get(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Show the specs of a group type."""
        microversions.require(req, microversions.GROUP_TYPES)
        self._context.policy.require(req.context.identity, policies.GROUP_SPECS_INDEX)
        resp.media = bodies.SetGroupSpecs(self._get(req, group_type_id).specs)

    @operation({202: bodies.SetGroupSpecs}, bodies=(bodies.SetGroupSpecs,))
    def on_post(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Set some specs and leave the others."""
        microversions.require(req, microversions.GROUP_TYPES)
        self._context.policy.require(req.context.identity, policies.GROUP_SPECS_CREATE)
        sent = self._context.bodies.read(req, bodies.SetGroupSpecs)
        self._context.database.run(group_types.set_specs, group_type_id, sent.group_specs)
        resp.status = falcon.HTTP_202
        resp.media = sent


class GroupSpec(_Resource):
    """``/group_types/{group_type_id}/group_specs/{key}``."""

    @operation({200: dict[str, str]})
    def on_get(self, req: Request, resp: falcon.Response, group_type_id: str, key: str) -> None:
        """Show one spec."""
        microversions.require(req, microversions.GROUP_TYPES)
        self._context.policy.require(req.context.identity, policies.GROUP_SPECS_SHOW)
        specs = self._get(req, group_type_id).specs
        if key not in specs:
            raise errors.NotFound(group_types.no_spec(group_type_id, key))
        resp.media = {key: specs[key]}

    @operation({200: dict[str, str]}, bodies=(bodies.OneSpec,))
    def on_put(self, req: Request, resp: falcon.Response, group_type_id: str, key: str) -> None:
        """Set one spec, which the body names again."""
        microversions.require(req, microversions.GROUP_TYPES)
        self._context.policy.require(req.context.identity, policies.GROUP_SPECS_UPDATE)
        specs = self._context.bodies.read(req, bodies.OneSpec)
        if list(specs) != [key]:
            raise errors.InvalidInput(f"the body names {', '.join(map(repr, specs))}: expected {key!r} alone")
        self._context.database.run(group_types.set_specs, group_type_id, specs)
        resp.media = specs

    @operation({202: None})
    def on_delete(self, req: Request, resp: falcon.Response, group_type_id: str, key: str) -> None:
        """Remove one spec."""
        microversions.require(req, microversions.GROUP_TYPES)
        self._context.policy.require(req.context.identity, policies.GROUP_SPECS_DELETE)
        self._context.database.remove(group_types.unset_spec, group_type_id, key)
        resp.status = falcon.HTTP_202
