# SPDX-License-Identifier: Apache-2.0
"""Volume types and their extra specs."""

from collections.abc import Sequence

import falcon

from tonnage.api.auth import policies
from tonnage.api.http import booleans, fields, list_query, microversions
from tonnage.api.http.body import convert, only_key
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import ResourceContext
from tonnage.api.schemas import type_bodies, views
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import qos_specs, type_access, volume_types
from tonnage.ledger.db import filter_values

_QUERY = Query(
    sort_keys=volume_types.SORT_KEYS,
    filters=volume_types.FILTERS,
    patterns={"extra_specs": filter_values.PATTERN},
    words={"is_public": (*booleans.WORDS, "none", "None", "NONE")},
)


class _Resource:
    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    def _shown(self, req: Request, kind: models.VolumeType) -> type_bodies.TypeDetail:
        return self._all_shown(req, [kind])[0]

    def _all_shown(self, req: Request, kinds: Sequence[models.VolumeType]) -> list[type_bodies.TypeDetail]:
        policy, identity = self._context.policy, req.context.identity
        specs = policy.allows(identity, policies.TYPE_EXTRA_SPECS)
        if not policy.allows(identity, policies.TYPE_QOS):
            return [views.volume_type(kind, extra_specs=specs) for kind in kinds]
        with self._context.database.reading() as session:
            qos = qos_specs.of_types(session, [kind.id for kind in kinds])
        return [views.volume_type(kind, extra_specs=specs, qos_specs_id=qos.get(kind.id)) for kind in kinds]

    def _visible_project(self, req: Request) -> str | None:
        """Return the project whose types are seen: private ones by administrators and those who were given access."""
        return self._context.policy.visible_project(req.context.identity)

    def _get(self, req: Request, type_id: str) -> models.VolumeType:
        with self._context.database.reading() as session:
            return volume_types.get(session, type_id, self._visible_project(req))


class Types(_Resource):
    """``/types``."""

    @operation({200: type_bodies.VolumeTypes}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the types that the asker may use, or for administrators as ``is_public`` says (true, false, none).

        Filters count from 3.52 on; before they are ignored, as in Cinder.
        """
        context = self._context
        context.policy.require(req.context.identity, policies.TYPE_GET_ALL)
        given = _QUERY.read(req)
        project_id = self._visible_project(req)
        # What an administrator can leave out, others cannot: they are shown all that they may use.
        is_public = _is_public(given.get("is_public")) if project_id is None else None
        page, filters = context.paginator.page(given), _QUERY.select_filters(given)
        if not req.at_least(microversions.TYPE_FILTERS):
            filters = {}
        if "extra_specs" in filters:
            # Otherwise one could find out by trying what is not shown.
            context.policy.require(req.context.identity, policies.TYPE_EXTRA_SPECS)
        query = volume_types.Query(is_public=is_public, filters=filters)
        with context.database.reading() as session:
            found = volume_types.page(session, query, page, project_id)
        resp.media = type_bodies.VolumeTypes(self._all_shown(req, found), context.paginator.links(req, page, found))

    @operation({200: type_bodies.VolumeType}, bodies=(type_bodies.CreateType,), errors=(409,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a type."""
        context = self._context
        context.policy.require(req.context.identity, policies.TYPE_CREATE)
        sent = context.bodies.read(req, type_bodies.CreateType).volume_type
        kind = context.database.run(volume_types.create, sent.name, sent.description, sent.is_public, sent.extra_specs)
        resp.media = type_bodies.VolumeType(self._shown(req, kind))


class DefaultType(_Resource):
    """``/types/default``."""

    def __init__(self, context: ResourceContext, default_type: str | None) -> None:
        super().__init__(context)
        self._default_type = default_type

    @operation({200: type_bodies.VolumeType}, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the type of volumes that are created without one."""
        self._context.policy.require(req.context.identity, policies.TYPE_GET)
        if self._default_type is None:
            raise errors.NotFound("Default volume type can not be found: the option default_volume_type is not set.")
        with self._context.database.reading() as session:
            kind = volume_types.find(session, self._default_type, self._visible_project(req))
        resp.media = type_bodies.VolumeType(self._shown(req, kind))


class Type(_Resource):
    """``/types/{type_id}``."""

    @operation({200: type_bodies.VolumeType})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Show a type."""
        self._context.policy.require(req.context.identity, policies.TYPE_GET)
        resp.media = type_bodies.VolumeType(self._shown(req, self._get(req, type_id)))

    @operation({200: type_bodies.VolumeType}, bodies=(type_bodies.UpdateType,), errors=(409,))
    def on_put(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Change a type."""
        context = self._context
        context.policy.require(req.context.identity, policies.TYPE_UPDATE)
        sent = context.bodies.read(req, type_bodies.UpdateType).volume_type
        changes = volume_types.Changes(name=sent.name, description=sent.description, is_public=sent.is_public)
        kind = context.database.run(volume_types.update, type_id, changes)
        resp.media = type_bodies.VolumeType(self._shown(req, kind))

    @operation({202: None})
    def on_delete(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Remove a type that no volume has."""
        self._context.policy.require(req.context.identity, policies.TYPE_DELETE)
        self._context.database.remove(volume_types.delete, type_id)
        resp.status = falcon.HTTP_202


class Access(_Resource):
    """``/types/{type_id}/os-volume-type-access``."""

    @operation({200: type_bodies.TypeAccessList})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """List the projects that may use a private type."""
        self._context.policy.require(req.context.identity, policies.TYPE_ACCESS_INDEX)
        with self._context.database.reading() as session:
            projects = type_access.projects(session, type_id)
        resp.media = type_bodies.TypeAccessList(
            [type_bodies.TypeAccess(type_id, project_id) for project_id in projects]
        )


class TypeActions(_Resource):
    """``/types/{type_id}/action``: letting projects use a private type."""

    @operation({202: None}, actions=type_bodies.TYPE_ACTIONS, errors=(409,))
    def on_post(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Do what the body's only key names."""
        context, identity = self._context, req.context.identity
        name, arguments = only_key(context.bodies.decode(req), type_bodies.TYPE_ACTIONS)
        adds = name == "addProjectAccess"
        context.policy.require(identity, policies.TYPE_ACCESS_ADD if adds else policies.TYPE_ACCESS_REMOVE)
        project_id = convert(arguments, type_bodies.ProjectAccess).project
        if adds:
            context.database.run(type_access.add, type_id, project_id)
        else:
            context.database.remove(type_access.remove, type_id, project_id)
        resp.status = falcon.HTTP_202


class ExtraSpecs(_Resource):
    """``/types/{type_id}/extra_specs``."""

    @operation({200: type_bodies.ExtraSpecs})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Show the extra specs of a type."""
        self._context.policy.require(req.context.identity, policies.SPECS_INDEX)
        resp.media = type_bodies.ExtraSpecs(self._get(req, type_id).extra_specs)

    @operation({200: type_bodies.ExtraSpecs}, bodies=(type_bodies.SetExtraSpecs,))
    def on_post(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Set some extra specs and leave the others."""
        self._context.policy.require(req.context.identity, policies.SPECS_CREATE)
        specs = self._context.bodies.read(req, type_bodies.SetExtraSpecs).extra_specs
        self._context.database.run(volume_types.set_specs, type_id, specs)
        resp.media = type_bodies.ExtraSpecs(specs)


class ExtraSpec(_Resource):
    """``/types/{type_id}/extra_specs/{key}``."""

    @operation({200: dict[str, str]})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str, key: str) -> None:
        """Show one extra spec."""
        self._context.policy.require(req.context.identity, policies.SPECS_SHOW)
        specs = self._get(req, type_id).extra_specs
        if key not in specs:
            raise errors.NotFound(volume_types.no_spec(type_id, key))
        resp.media = {key: specs[key]}

    @operation({200: dict[str, str]}, bodies=(fields.OneSpec,))
    def on_put(self, req: Request, resp: falcon.Response, type_id: str, key: str) -> None:
        """Set one extra spec, which the body names again."""
        self._context.policy.require(req.context.identity, policies.SPECS_UPDATE)
        specs = self._context.bodies.read(req, fields.OneSpec)
        if list(specs) != [key]:
            raise errors.InvalidInput(f"the body names {', '.join(map(repr, specs))}: expected {key!r} alone")
        self._context.database.run(volume_types.set_specs, type_id, specs)
        resp.media = specs

    @operation({202: None})
    def on_delete(self, req: Request, resp: falcon.Response, type_id: str, key: str) -> None:
        """Remove one extra spec."""
        self._context.policy.require(req.context.identity, policies.SPECS_DELETE)
        self._context.database.remove(volume_types.unset_spec, type_id, key)
        resp.status = falcon.HTTP_202


def _is_public(text: str | None) -> bool | None:
    if text is None:
        return True
    return None if text.lower() == "none" else list_query.boolean({"is_public": text}, "is_public")
