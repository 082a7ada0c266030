# SPDX-License-Identifier: Apache-2.0
"""Volume types with their extra specs and access lists, and, since microversion 3.11, group types with their specs."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic

import falcon
from msgspec import UNSET, UnsetType

from tonnage.api.auth import policies
from tonnage.api.context import views
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http import faults, list_query, microversions
from tonnage.api.http.annotations import operation
from tonnage.api.http.body import convert, only_key
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas import booleans, fields, group_bodies, type_bodies
from tonnage.api.schemas.response_bodies import Link
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import filter_values, group_types, qos_specs, type_access, type_catalog, volume_types
from tonnage.ledger.catalog.type_catalog import TypeRow
from tonnage.ledger.db import paging

_IS_PUBLIC = {"is_public": (*booleans.WORDS, "none", "None", "NONE")}
_VOLUME_TYPES_QUERY = Query(
    sort_keys=type_catalog.SORT_KEYS,
    filters=volume_types.FILTERS,
    patterns={"extra_specs": filter_values.PATTERN},
    words=_IS_PUBLIC,
)
_GROUP_TYPES_QUERY = Query(sort_keys=type_catalog.SORT_KEYS, words=_IS_PUBLIC, other_parameters="ignored")


class _TypeResource(Generic[TypeRow]):
    """The base class of the resources of volume types and of group types.

    ``since`` is the minor number of the first microversion with the resource.
    """

    catalog: type_catalog.TypeCatalog[TypeRow]
    since: ClassVar[int] = 0

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    def _authorize(self, req: Request, rule: str | None = None) -> None:
        """Raise an error unless the microversion and the policy rule allow the call."""
        microversions.require(req, self.since)
        if rule is not None:
            self._context.policy.require(req.context.identity, rule)

    def _visible_project(self, req: Request) -> str | None:
        """Return the project whose types are visible, None for an administrator, who sees the types of all projects."""
        return self._context.policy.visible_project(req.context.identity)

    def _get(self, req: Request, type_id: str) -> TypeRow:
        with self._context.database.reading() as session:
            return self.catalog.get(session, type_id, self._visible_project(req))

    def _find(
        self, req: Request, is_public_text: str | None, filters: Mapping[str, str], page: paging.Page
    ) -> tuple[Sequence[TypeRow], list[Link] | UnsetType]:
        """Return the types of a page and the links of the list.

        Only administrators can choose between public and private types. Other users see all types that they may use.
        """
        project_id = self._visible_project(req)
        is_public = _is_public(is_public_text) if project_id is None else None
        query = type_catalog.Query(is_public=is_public, filters=filters)
        with self._context.database.reading() as session:
            type_rows = self.catalog.page(session, query, page, project_id)
        return type_rows, self._context.paginator.links(req, page, type_rows)

    def _update(self, type_id: str, sent: type_bodies.TypeChanges) -> TypeRow:
        changes = type_catalog.Changes(name=sent.name, description=sent.description, is_public=sent.is_public)
        return self._context.database.run(self.catalog.update, type_id, changes)

    def _delete(self, resp: falcon.Response, type_id: str) -> None:
        self._context.database.remove(self.catalog.delete, type_id)
        resp.status = falcon.HTTP_202

    def _show_spec(self, req: Request, resp: falcon.Response, type_id: str, key: str) -> None:
        resp.media = {key: self.catalog.require_spec(self._get(req, type_id), key)}

    def _set_spec(self, resp: falcon.Response, type_id: str, key: str, specs: Mapping[str, str]) -> None:
        """Set a spec. Raises :class:`~tonnage.capacity.errors.InvalidInput` unless ``key`` is the key of the body."""
        if list(specs) != [key]:
            raise errors.InvalidInput(f"the body names {', '.join(map(repr, specs))}: expected {key!r} alone")
        self._context.database.run(self.catalog.set_specs, type_id, specs)
        resp.media = specs

    def _delete_spec(self, resp: falcon.Response, type_id: str, key: str) -> None:
        self._context.database.remove(self.catalog.unset_spec, type_id, key)
        resp.status = falcon.HTTP_202


def _is_public(text: str | None) -> bool | None:
    if text is None:
        return True
    return None if text.lower() == "none" else list_query.boolean({"is_public": text}, "is_public")


# Volume types


class _VolumeTypeResource(_TypeResource[models.VolumeType]):
    catalog = volume_types.CATALOG

    def _shown(self, req: Request, volume_type: models.VolumeType) -> type_bodies.TypeDetail:
        return self._all_shown(req, [volume_type])[0]

    def _created(self, req: Request, volume_type: models.VolumeType) -> type_bodies.TypeDetail:
        """Return a type that a request has created: as in Cinder, without the id of its QoS specs."""
        specs = self._context.policy.allows(req.context.identity, policies.TYPE_EXTRA_SPECS)
        return views.volume_type(volume_type, extra_specs=specs)

    def _all_shown(self, req: Request, type_rows: Sequence[models.VolumeType]) -> list[type_bodies.TypeDetail]:
        policy, identity = self._context.policy, req.context.identity
        specs = policy.allows(identity, policies.TYPE_EXTRA_SPECS)
        if not policy.allows(identity, policies.TYPE_QOS):
            return [views.volume_type(volume_type, extra_specs=specs) for volume_type in type_rows]
        with self._context.database.reading() as session:
            qos = qos_specs.of_types(session, [volume_type.id for volume_type in type_rows])
        return [
            views.volume_type(volume_type, extra_specs=specs, qos_specs_id=qos.get(volume_type.id))
            for volume_type in type_rows
        ]


class Types(_VolumeTypeResource):
    """``/types``."""

    @operation({200: type_bodies.VolumeTypes}, query=_VOLUME_TYPES_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the volume types that the user may use; for administrators filtered by ``is_public`` (or ``none``).

        Filters apply since 3.52. Older microversions ignore them, as in Cinder.
        """
        self._authorize(req, policies.TYPE_GET_ALL)
        parameters = _VOLUME_TYPES_QUERY.read(req)
        page = self._context.paginator.page(parameters)
        filters = _VOLUME_TYPES_QUERY.select_filters(parameters) if req.at_least(microversions.TYPE_FILTERS) else {}
        if "extra_specs" in filters:
            # Otherwise a user could find out hidden values by filtering.
            self._authorize(req, policies.TYPE_EXTRA_SPECS)
        type_rows, links = self._find(req, parameters.get("is_public"), filters, page)
        resp.media = type_bodies.VolumeTypes(self._all_shown(req, type_rows), links)

    @operation({200: type_bodies.VolumeType}, bodies=(type_bodies.CreateType,), errors=(409, 501))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a volume type."""
        self._authorize(req, policies.TYPE_CREATE)
        sent = self._context.bodies.read(req, type_bodies.CreateType).volume_type
        if sent.encryption not in fields.EMPTY_VALUES:
            raise faults.NotSupported("The encryption of volumes is not supported: create the type without encryption.")
        volume_type = self._context.database.run(
            self.catalog.create, sent.name, sent.description, sent.is_public, sent.extra_specs
        )
        resp.media = type_bodies.VolumeType(self._created(req, volume_type))


class _ConfiguredTypeResource(_VolumeTypeResource):
    """The base class of the resources that know the option ``default_volume_type``, in ``default_type``."""

    def __init__(self, context: ResourceContext, default_type: str | None) -> None:
        super().__init__(context)
        self._default_type = default_type


class DefaultType(_ConfiguredTypeResource):
    """``/types/default``."""

    @operation({200: type_bodies.VolumeType}, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the default type of new volumes, also if it is private."""
        self._authorize(req, policies.TYPE_GET)
        if not self._default_type:
            raise errors.NotFound("Default volume type can not be found: the option default_volume_type is not set.")
        with self._context.database.reading() as session:
            volume_type = self.catalog.find(session, self._default_type)
        resp.media = type_bodies.VolumeType(self._shown(req, volume_type))


class Type(_ConfiguredTypeResource):
    """``/types/{type_id}``."""

    @operation({200: type_bodies.VolumeType})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Show a volume type."""
        self._authorize(req, policies.TYPE_GET)
        resp.media = type_bodies.VolumeType(self._shown(req, self._get(req, type_id)))

    @operation({200: type_bodies.VolumeType}, bodies=(type_bodies.UpdateType,), errors=(409,))
    def on_put(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Change a volume type."""
        self._authorize(req, policies.TYPE_UPDATE)
        sent = self._context.bodies.read(req, type_bodies.UpdateType).volume_type
        view = self._created(req, self._update(type_id, sent))
        view.access = UNSET
        resp.media = type_bodies.VolumeType(view)

    @operation({202: None})
    def on_delete(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Delete a volume type that no volume has and that is not the default type."""
        self._authorize(req, policies.TYPE_DELETE)
        volume_type = self._get(req, type_id)
        if self._default_type in (volume_type.id, volume_type.name):
            raise errors.InvalidInput(
                f"The volume type {volume_type.id} is a default volume type and cannot be deleted."
            )
        self._delete(resp, type_id)


class Access(_VolumeTypeResource):
    """``/types/{type_id}/os-volume-type-access``."""

    @operation({200: type_bodies.TypeAccessList})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """List the projects that may use a private volume type."""
        self._authorize(req, policies.TYPE_ACCESS_INDEX)
        with self._context.database.reading() as session:
            projects = type_access.projects(session, type_id)
        resp.media = type_bodies.TypeAccessList(
            [type_bodies.TypeAccess(type_id, project_id) for project_id in projects]
        )


class TypeActions(_VolumeTypeResource):
    """``/types/{type_id}/action``: changes of the access of projects to a private type."""

    @operation({202: None}, actions=type_bodies.TYPE_ACTIONS, errors=(409,))
    def on_post(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Give a project access to a private volume type, or remove it."""
        name, arguments = only_key(self._context.bodies.decode(req), type_bodies.TYPE_ACTIONS)
        adds = name == "addProjectAccess"
        self._authorize(req, policies.TYPE_ACCESS_ADD if adds else policies.TYPE_ACCESS_REMOVE)
        project_id = convert(arguments, type_bodies.ProjectAccess).project
        if adds:
            self._context.database.run(type_access.add, type_id, project_id)
        else:
            self._context.database.remove(type_access.remove, type_id, project_id)
        resp.status = falcon.HTTP_202


class ExtraSpecs(_VolumeTypeResource):
    """``/types/{type_id}/extra_specs``."""

    @operation({200: type_bodies.ExtraSpecs})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Show the extra specs of a volume type."""
        self._authorize(req, policies.SPECS_INDEX)
        resp.media = type_bodies.ExtraSpecs(self.catalog.specs_of(self._get(req, type_id)))

    @operation({200: type_bodies.ExtraSpecs}, bodies=(type_bodies.SetExtraSpecs,))
    def on_post(self, req: Request, resp: falcon.Response, type_id: str) -> None:
        """Set some extra specs and keep the others."""
        self._authorize(req, policies.SPECS_CREATE)
        specs = self._context.bodies.read(req, type_bodies.SetExtraSpecs).extra_specs
        self._context.database.run(self.catalog.set_specs, type_id, specs)
        resp.media = type_bodies.ExtraSpecs(specs)


class ExtraSpec(_VolumeTypeResource):
    """``/types/{type_id}/extra_specs/{key}``."""

    @operation({200: dict[str, str]})
    def on_get(self, req: Request, resp: falcon.Response, type_id: str, key: str) -> None:
        """Show an extra spec."""
        self._authorize(req, policies.SPECS_SHOW)
        self._show_spec(req, resp, type_id, key)

    @operation({200: dict[str, str]}, bodies=(fields.OneSpec,))
    def on_put(self, req: Request, resp: falcon.Response, type_id: str, key: str) -> None:
        """Set an extra spec. The body has the same key as the path."""
        self._authorize(req, policies.SPECS_UPDATE)
        self._set_spec(resp, type_id, key, self._context.bodies.read(req, fields.OneSpec))

    @operation({202: None})
    def on_delete(self, req: Request, resp: falcon.Response, type_id: str, key: str) -> None:
        """Delete an extra spec."""
        self._authorize(req, policies.SPECS_DELETE)
        self._delete_spec(resp, type_id, key)


# Group types


class _GroupTypeResource(_TypeResource[models.GroupType]):
    catalog = group_types.CATALOG
    since = microversions.GROUP_TYPES

    def _shown(self, req: Request, group_type: models.GroupType) -> group_bodies.GroupTypeDetail:
        specs = self._context.policy.allows(req.context.identity, policies.GROUP_TYPE_SPECS)
        return views.group_type(group_type, specs=specs)


class GroupTypes(_GroupTypeResource):
    """``/group_types``. All users may list them, as in Cinder."""

    @operation({200: group_bodies.GroupTypes}, query=_GROUP_TYPES_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the public group types; for administrators filtered by ``is_public`` (or ``none``)."""
        self._authorize(req)
        parameters = _GROUP_TYPES_QUERY.read(req)
        type_rows, links = self._find(req, parameters.get("is_public"), {}, self._context.paginator.page(parameters))
        resp.media = group_bodies.GroupTypes([self._shown(req, group_type) for group_type in type_rows], links)

    @operation({202: group_bodies.OneGroupType}, bodies=(group_bodies.CreateGroupType,), errors=(404, 409))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a group type."""
        self._authorize(req, policies.GROUP_TYPE_CREATE)
        sent = self._context.bodies.read(req, group_bodies.CreateGroupType).group_type
        group_type = self._context.database.run(
            self.catalog.create, sent.name, sent.description, bool(sent.is_public), sent.group_specs
        )
        resp.status = falcon.HTTP_202
        resp.media = group_bodies.OneGroupType(self._shown(req, group_type))


class DefaultGroupType(_GroupTypeResource):
    """``/group_types/default``."""

    @operation({}, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Reject the request with status 404, as there is no default group type."""
        self._authorize(req)
        raise errors.NotFound("Default group type can not be found.")


class GroupType(_GroupTypeResource):
    """``/group_types/{group_type_id}``."""

    @operation({200: group_bodies.OneGroupType})
    def on_get(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Show a group type."""
        self._authorize(req)
        resp.media = group_bodies.OneGroupType(self._shown(req, self._get(req, group_type_id)))

    @operation({200: group_bodies.OneGroupType}, bodies=(group_bodies.UpdateGroupType,), errors=(409,))
    def on_put(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Change a group type."""
        self._authorize(req, policies.GROUP_TYPE_UPDATE)
        sent = self._context.bodies.read(req, group_bodies.UpdateGroupType).group_type
        resp.media = group_bodies.OneGroupType(self._shown(req, self._update(group_type_id, sent)))

    @operation({202: None})
    def on_delete(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Delete a group type that no group has."""
        self._authorize(req, policies.GROUP_TYPE_DELETE)
        self._delete(resp, group_type_id)


class GroupSpecs(_GroupTypeResource):
    """``/group_types/{group_type_id}/group_specs``."""

    @operation({200: group_bodies.SetGroupSpecs})
    def on_get(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Show the specs of a group type."""
        self._authorize(req, policies.GROUP_SPECS_INDEX)
        resp.media = group_bodies.SetGroupSpecs(self.catalog.specs_of(self._get(req, group_type_id)))

    @operation({202: group_bodies.SetGroupSpecs}, bodies=(group_bodies.SetGroupSpecs,))
    def on_post(self, req: Request, resp: falcon.Response, group_type_id: str) -> None:
        """Set some specs and keep the others."""
        self._authorize(req, policies.GROUP_SPECS_CREATE)
        sent = self._context.bodies.read(req, group_bodies.SetGroupSpecs)
        self._context.database.run(self.catalog.set_specs, group_type_id, sent.group_specs)
        resp.status = falcon.HTTP_202
        resp.media = sent


class GroupSpec(_GroupTypeResource):
    """``/group_types/{group_type_id}/group_specs/{key}``."""

    @operation({200: dict[str, str]})
    def on_get(self, req: Request, resp: falcon.Response, group_type_id: str, key: str) -> None:
        """Show a spec."""
        self._authorize(req, policies.GROUP_SPECS_SHOW)
        self._show_spec(req, resp, group_type_id, key)

    @operation({200: dict[str, str]}, bodies=(group_bodies.OneSpec,))
    def on_put(self, req: Request, resp: falcon.Response, group_type_id: str, key: str) -> None:
        """Set a spec. The body has the same key as the path."""
        self._authorize(req, policies.GROUP_SPECS_UPDATE)
        self._set_spec(resp, group_type_id, key, self._context.bodies.read(req, group_bodies.OneSpec))

    @operation({202: None})
    def on_delete(self, req: Request, resp: falcon.Response, group_type_id: str, key: str) -> None:
        """Delete a spec."""
        self._authorize(req, policies.GROUP_SPECS_DELETE)
        self._delete_spec(resp, group_type_id, key)
