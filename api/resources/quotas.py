# SPDX-License-Identifier: Apache-2.0
"""Quotas: the limits and the usage of projects."""

from collections.abc import Mapping, Sequence

import falcon
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.api.auth import policies
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http import list_query
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas.quota_bodies import Absolute, LimitUsage, QuotaClassSet, QuotaSet, SetClassQuotas, SetQuotas
from tonnage.api.schemas.quota_bodies import Limits as LimitsBody
from tonnage.capacity import errors
from tonnage.ledger.catalog import groups, volume_types
from tonnage.ledger.locks import volume_usage
from tonnage.quotas import limits
from tonnage.quotas.limits import Holder, Item, LimitOwner, Limits, Resource, Scope
from tonnage.quotas.options import Settings

_MAX_LENGTH = 255

_SHOW = Query(flags=("usage",), filters=("user_id",), other_parameters="ignored")
_CHANGE = Query(flags=("skip_validation",), filters=("user_id",), other_parameters="ignored")
_LIMITS = Query(filters=("project_id", "tenant_id"), other_parameters="ignored")

_GROUPS = Item(Resource.GROUPS)

#: The names of absolute limits and of their usage.
_ABSOLUTE = {
    Resource.VOLUMES: ("maxTotalVolumes", "totalVolumesUsed"),
    Resource.GIGABYTES: ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
    Resource.SNAPSHOTS: ("maxTotalSnapshots", "totalSnapshotsUsed"),
    Resource.BACKUPS: ("maxTotalBackups", "totalBackupsUsed"),
    Resource.BACKUP_GIGABYTES: ("maxTotalBackupGigabytes", "totalBackupGigabytesUsed"),
}


class _Quotas:
    """The base class of the resources: limits and usage by the names of the API."""

    def __init__(self, context: ResourceContext, settings: Settings) -> None:
        self._context, self._defaults = context, settings.defaults
        self._placed_only, self._external_usage = settings.placed_only, settings.external_usage

    def _types(self, req: Request, session: orm.Session) -> dict[str, str]:
        """Return the names of the volume types that the user can see, by id."""
        return volume_types.names(session, self._context.policy.visible_project(req.context.identity))

    def _used(self, session: orm.Session, project_id: str) -> list[volume_usage.Share]:
        return volume_usage.count(session, project_id, placed_only=self._placed_only)

    def _usage(
        self, item: Item, limit: int, shares: Sequence[volume_usage.Share], project_id: str, user_id: str
    ) -> LimitUsage:
        """Return the usage of a limit, by one user (``user_id``) or by the project (empty ``user_id``)."""
        used = _usage(item, limit, shares, user_id)
        if item.resource is Resource.GIGABYTES:
            used.in_use += self._external_usage.used_gb(Scope(project_id, user_id, item.volume_type_id))
        return used

    def _put(self, owner: LimitOwner, values: Mapping[Item, int]) -> None:
        try:
            self._context.database.run(limits.put, owner, values)
        except db_exc.DBDuplicateEntry:  # another request has inserted the same limit
            self._context.database.run(limits.put, owner, values)


class QuotaSets(_Quotas):
    """``/os-quota-sets/{project_id}``."""

    @operation({200: QuotaSet}, query=_SHOW)
    def on_get(self, req: Request, resp: falcon.Response, project_id: str) -> None:
        """Show the limits of a project or (``user_id``) of a user in it; with ``usage`` also their usage."""
        self._context.policy.require(req.context.identity, policies.QUOTAS_SHOW, project_id)
        parameters = _SHOW.read(req)
        usage = list_query.boolean(parameters, "usage")
        resp.media = QuotaSet(
            {"id": project_id, **self._limits(req, project_id, parameters.get("user_id", ""), usage=usage)}
        )

    @operation({200: QuotaSet})
    def on_get_defaults(self, req: Request, resp: falcon.Response, project_id: str) -> None:
        """Show the default limits, for a project without its own limits."""
        self._context.policy.require(req.context.identity, policies.QUOTAS_SHOW, project_id)
        with self._context.database.reading() as session:
            names = self._types(req, session)
            default_limits = limits.read(session, self._defaults, ())
        values = {limits.name(item, names): default_limits.default(item) for item in limits.items(names)}
        resp.media = QuotaSet({"id": project_id, **values})

    @operation({200: QuotaSet}, bodies=(SetQuotas,), query=_CHANGE)
    def on_put(self, req: Request, resp: falcon.Response, project_id: str) -> None:
        """Set limits of a project or (``user_id``) of a user in it, and keep the others.

        A limit may be below the current usage unless ``skip_validation`` is false.
        """
        self._context.policy.require(req.context.identity, policies.QUOTAS_UPDATE, project_id)
        parameters = _CHANGE.read(req)
        user_id = parameters.get("user_id", "")
        owner = LimitOwner(Holder.PROJECT, _check_length("project_id", project_id), _check_length("user_id", user_id))
        self._external_usage.read([project_id])
        with self._context.database.reading() as session:
            names = self._types(req, session)
            shares = self._used(session, project_id)
        values = _items(self._context.bodies.read(req, SetQuotas).quota_set.values, names)
        if "skip_validation" in parameters and not list_query.boolean(parameters, "skip_validation"):
            for item, value in values.items():
                used = self._usage(item, value, shares, project_id, user_id)
                if item == _GROUPS:
                    used = self._group_usage(project_id, user_id, value)
                if 0 <= value < used.in_use + used.reserved:
                    raise errors.InvalidInput(
                        f"Quota limit {value} for {limits.name(item, names)} is below the usage of "
                        f"{used.in_use + used.reserved}: have something deleted, or send skip_validation=True."
                    )
        self._put(owner, values)
        resp.media = QuotaSet(self._limits(req, project_id, user_id, usage=False))

    @operation({200: None}, query=_CHANGE)
    def on_delete(self, req: Request, resp: falcon.Response, project_id: str) -> None:
        """Delete the limits of a project and of its users, or (``user_id``) of one user."""
        self._context.policy.require(req.context.identity, policies.QUOTAS_DELETE, project_id)
        user_id = _CHANGE.read(req).get("user_id", "")
        self._context.database.run(limits.remove, LimitOwner(Holder.PROJECT, project_id, user_id))

    def _limits(self, req: Request, project_id: str, user_id: str, *, usage: bool) -> dict[str, int | str | LimitUsage]:
        if usage:
            self._external_usage.read([project_id])
        with self._context.database.reading() as session:
            names = self._types(req, session)
            project_limits = limits.read(session, self._defaults, {project_id})
            shares = self._used(session, project_id) if usage else []
        shown: dict[str, int | str | LimitUsage] = {}
        for item in limits.items(names):
            limit = (
                project_limits.of_user(project_id, user_id, item)
                if user_id
                else project_limits.of_project(project_id, item)
            )
            shown[limits.name(item, names)] = self._usage(item, limit, shares, project_id, user_id) if usage else limit
        if usage:
            shown[Resource.GROUPS] = self._group_usage(
                project_id, user_id, project_limits.of_user(project_id, user_id, _GROUPS)
            )
        return shown

    def _group_usage(self, project_id: str, user_id: str, limit: int) -> LimitUsage:
        with self._context.database.reading() as session:
            return LimitUsage(limit, groups.count(session, project_id, user_id))


class QuotaClassSets(_Quotas):
    """``/os-quota-class-sets/{class_name}``. The class ``default`` has the limits of projects without their own."""

    @operation({200: QuotaClassSet})
    def on_get(self, req: Request, resp: falcon.Response, class_name: str) -> None:
        """Show the limits of a quota class."""
        self._context.policy.require(req.context.identity, policies.QUOTA_CLASSES_GET)
        resp.media = QuotaClassSet({"id": class_name, **self._limits(req, class_name)})

    @operation({200: QuotaClassSet}, bodies=(SetClassQuotas,))
    def on_put(self, req: Request, resp: falcon.Response, class_name: str) -> None:
        """Set limits of a quota class, and keep the others. They take precedence over the configuration."""
        self._context.policy.require(req.context.identity, policies.QUOTA_CLASSES_UPDATE)
        owner = LimitOwner(Holder.CLASS, _check_length("class_name", class_name))
        with self._context.database.reading() as session:
            names = self._types(req, session)
        self._put(owner, _items(self._context.bodies.read(req, SetClassQuotas).quota_class_set.values, names))
        resp.media = QuotaClassSet(self._limits(req, class_name))

    def _limits(self, req: Request, class_name: str) -> dict[str, int | str]:
        with self._context.database.reading() as session:
            names = self._types(req, session)
            class_limits = limits.read(session, self._defaults, (), class_name)
        of_options = Limits(self._defaults)
        shown: dict[str, int | str] = {}
        for item in limits.items(names):
            own = class_limits.own(LimitOwner(Holder.CLASS, class_name), item)
            shown[limits.name(item, names)] = of_options.default(item) if own is None else own
        return shown


class AbsoluteLimits(_Quotas):
    """``/limits``."""

    @operation({200: LimitsBody}, query=_LIMITS)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the limits and the usage of the user's project or, for administrators, of ``project_id``."""
        parameters, identity = _LIMITS.read(req), req.context.identity
        project_id = parameters.get("project_id") or parameters.get("tenant_id") or identity.project_id or ""
        self._context.policy.require(identity, policies.USED_LIMITS, project_id)
        self._external_usage.read([project_id])
        with self._context.database.reading() as session:
            project_limits = limits.read(session, self._defaults, {project_id})
            shares = self._used(session, project_id)
        absolute = {}
        for resource, (limit_name, usage_name) in _ABSOLUTE.items():
            used = self._usage(Item(resource), 0, shares, project_id, "")
            absolute[limit_name] = project_limits.of_project(project_id, Item(resource))
            absolute[usage_name] = used.in_use + used.reserved
        resp.media = LimitsBody(Absolute([], absolute))


def _usage(item: Item, limit: int, shares: Sequence[volume_usage.Share], user_id: str) -> LimitUsage:
    used = LimitUsage(limit)
    for share in shares:
        if (item.volume_type_id and share.volume_type_id != item.volume_type_id) or user_id not in ("", share.user_id):
            continue
        if item.resource not in limits.COUNTED or not (share.new or item.volume_type_id):
            continue
        amount = share.volumes if item.resource is Resource.VOLUMES else share.gigabytes
        if share.reserved:
            used.reserved += amount
        else:
            used.in_use += amount
    return used


def _items(sent: Mapping[str, int], names: Mapping[str, str]) -> dict[Item, int]:
    """Return limits by item. Raises :class:`~tonnage.capacity.errors.InvalidInput` for unknown names."""
    ids = {name: type_id for type_id, name in names.items()}
    items_by_name = {name: limits.parse(name, ids) for name in sent}
    if unknown := sorted(name for name, item in items_by_name.items() if item is None):
        raise errors.InvalidInput(f"Bad key(s) in quota set: {', '.join(unknown)}")
    return {item: sent[name] for name, item in items_by_name.items() if item is not None}


def _check_length(name: str, value: str) -> str:
    if len(value) > _MAX_LENGTH:
        raise errors.InvalidInput(f"{name} has {len(value)} characters: it takes at most {_MAX_LENGTH}")
    return value
