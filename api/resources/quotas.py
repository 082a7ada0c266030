# SPDX-License-Identifier: Apache-2.0
"""Quotas: what projects may have, and what they have."""

from collections.abc import Mapping, Sequence

import falcon
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.api.auth import policies
from tonnage.api.http import list_query
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.api.schemas.quota_bodies import Absolute, LimitUsage, QuotaClassSet, QuotaSet, SetClassQuotas, SetQuotas
from tonnage.api.schemas.quota_bodies import Limits as LimitsBody
from tonnage.capacity import errors
from tonnage.ledger.catalog import groups, volume_types, volume_usage
from tonnage.quotas import limit_rows, limits
from tonnage.quotas.limits import Holder, Item, Limits, Place, Resource, Scope
from tonnage.quotas.options import Settings

_LONGEST = 255

_SHOW = Query(flags=("usage",), filters=("user_id",), more="ignored")
_CHANGE = Query(flags=("skip_validation",), filters=("user_id",), more="ignored")
_LIMITS = Query(filters=("project_id", "tenant_id"), more="ignored")

_GROUPS = Item(Resource.GROUPS)

#: The names of absolute limits, and of what is used of them.
_ABSOLUTE = {
    Resource.VOLUMES: ("maxTotalVolumes", "totalVolumesUsed"),
    Resource.GIGABYTES: ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
    Resource.SNAPSHOTS: ("maxTotalSnapshots", "totalSnapshotsUsed"),
    Resource.BACKUPS: ("maxTotalBackups", "totalBackupsUsed"),
    Resource.BACKUP_GIGABYTES: ("maxTotalBackupGigabytes", "totalBackupGigabytesUsed"),
}


class _Quotas:
    """What is common: the limits that count, by the names of clients."""

    def __init__(self, tools: Tools, settings: Settings) -> None:
        self._tools, self._defaults = tools, settings.defaults
        self._placed_only, self._beside = settings.placed_only, settings.beside

    def _types(self, req: Request, session: orm.Session) -> dict[str, str]:
        """Return the names of the volume types that the asker sees, by id."""
        return volume_types.names(session, self._tools.policy.reach(req.context.identity))

    def _used(self, session: orm.Session, project_id: str) -> list[volume_usage.Share]:
        return volume_usage.count(session, project_id, placed_only=self._placed_only)

    def _usage(
        self, item: Item, limit: int, shares: Sequence[volume_usage.Share], project_id: str, user_id: str
    ) -> LimitUsage:
        """Return what counts against a limit: of one user (``user_id``) or of all in the project."""
        used = _usage(item, limit, shares, user_id)
        if item.resource is Resource.GIGABYTES:
            used.in_use += self._beside.beyond(Scope(project_id, user_id, item.volume_type_id))
        return used

    def _put(self, place: Place, values: Mapping[Item, int]) -> None:
        try:
            self._tools.database.run(limit_rows.put, place, values)
        except db_exc.DBDuplicateEntry:  # somebody else has just set the same for the first time
            self._tools.database.run(limit_rows.put, place, values)


class QuotaSets(_Quotas):
    """``/os-quota-sets/{project_id}``."""

    @operation({200: QuotaSet}, query=_SHOW)
    def on_get(self, req: Request, resp: falcon.Response, project_id: str) -> None:
        """Show the limits of a project or (``user_id``) a user in it; with ``usage`` also what counts against them."""
        self._tools.policy.require(req.context.identity, policies.QUOTAS_SHOW, project_id)
        given = _SHOW.read(req)
        resp.media = self._shown(req, project_id, given.get("user_id", ""), usage=list_query.flag(given, "usage"))

    @operation({200: QuotaSet})
    def on_get_defaults(self, req: Request, resp: falcon.Response, project_id: str) -> None:
        """Show the limits of a project that has none of its own."""
        self._tools.policy.require(req.context.identity, policies.QUOTAS_SHOW, project_id)
        with self._tools.database.reading() as session:
            names = self._types(req, session)
            found = limit_rows.read(session, self._defaults, ())
        values = {limits.name(item, names): found.default(item) for item in limits.items(names)}
        resp.media = QuotaSet({"id": project_id, **values})

    @operation({200: QuotaSet}, bodies=(SetQuotas,), query=_CHANGE)
    def on_put(self, req: Request, resp: falcon.Response, project_id: str) -> None:
        """Set limits of a project or (``user_id``) of a user in it, and leave the others.

        Without ``skip_validation``, or where it is true, they may be below what there is already.
        """
        self._tools.policy.require(req.context.identity, policies.QUOTAS_UPDATE, project_id)
        given = _CHANGE.read(req)
        user_id = given.get("user_id", "")
        place = Place(Holder.PROJECT, _fitting("project_id", project_id), _fitting("user_id", user_id))
        self._beside.read([project_id])
        with self._tools.database.reading() as session:
            names = self._types(req, session)
            shares = self._used(session, project_id)
        values = _items(self._tools.bodies.read(req, SetQuotas).quota_set.values, names)
        if "skip_validation" in given and not list_query.flag(given, "skip_validation"):
            for item, value in values.items():
                used = self._usage(item, value, shares, project_id, user_id)
                if item == _GROUPS:
                    used = self._of_groups(project_id, user_id, value)
                if 0 <= value < used.in_use + used.reserved:
                    raise errors.InvalidInput(
                        f"Quota limit {value} for {limits.name(item, names)} is below what is in use, "
                        f"{used.in_use + used.reserved}: have something deleted, or send skip_validation=True."
                    )
        self._put(place, values)
        resp.media = self._shown(req, project_id, user_id, usage=False)

    @operation({200: None}, query=_CHANGE)
    def on_delete(self, req: Request, resp: falcon.Response, project_id: str) -> None:
        """Forget the limits of a project, with those of its users, or (``user_id``) of one user."""
        self._tools.policy.require(req.context.identity, policies.QUOTAS_DELETE, project_id)
        user_id = _CHANGE.read(req).get("user_id", "")
        self._tools.database.run(limit_rows.remove, Place(Holder.PROJECT, project_id, user_id))

    def _shown(self, req: Request, project_id: str, user_id: str, *, usage: bool) -> QuotaSet:
        if usage:
            self._beside.read([project_id])
        with self._tools.database.reading() as session:
            names = self._types(req, session)
            found = limit_rows.read(session, self._defaults, {project_id})
            shares = self._used(session, project_id) if usage else []
        shown: dict[str, int | str | LimitUsage] = {"id": project_id}
        for item in limits.items(names):
            limit = found.of_user(project_id, user_id, item) if user_id else found.of_project(project_id, item)
            shown[limits.name(item, names)] = self._usage(item, limit, shares, project_id, user_id) if usage else limit
        if usage:
            shown[Resource.GROUPS] = self._of_groups(project_id, user_id, found.of_user(project_id, user_id, _GROUPS))
        return QuotaSet(shown)

    def _of_groups(self, project_id: str, user_id: str, limit: int) -> LimitUsage:
        with self._tools.database.reading() as session:
            return LimitUsage(limit, groups.count(session, project_id, user_id))


class QuotaClassSets(_Quotas):
    """``/os-quota-class-sets/{class_name}``. The limits of ``default`` count where a project has none of its own."""

    @operation({200: QuotaClassSet})
    def on_get(self, req: Request, resp: falcon.Response, class_name: str) -> None:
        """Show the limits of a class."""
        self._tools.policy.require(req.context.identity, policies.QUOTA_CLASSES_GET)
        resp.media = self._shown(req, class_name)

    @operation({200: QuotaClassSet}, bodies=(SetClassQuotas,))
    def on_put(self, req: Request, resp: falcon.Response, class_name: str) -> None:
        """Set limits of a class, and leave the others. They win over the options of the configuration."""
        self._tools.policy.require(req.context.identity, policies.QUOTA_CLASSES_UPDATE)
        place = Place(Holder.CLASS, _fitting("class_name", class_name))
        with self._tools.database.reading() as session:
            names = self._types(req, session)
        self._put(place, _items(self._tools.bodies.read(req, SetClassQuotas).quota_class_set.values, names))
        resp.media = self._shown(req, class_name)

    def _shown(self, req: Request, class_name: str) -> QuotaClassSet:
        with self._tools.database.reading() as session:
            names = self._types(req, session)
            found = limit_rows.read(session, self._defaults, (), class_name)
        of_options = Limits(self._defaults)
        shown: dict[str, int | str] = {"id": class_name}
        for item in limits.items(names):
            own = found.own(Place(Holder.CLASS, class_name), item)
            shown[limits.name(item, names)] = of_options.default(item) if own is None else own
        return QuotaClassSet(shown)


class AbsoluteLimits(_Quotas):
    """``/limits``."""

    @operation({200: LimitsBody}, query=_LIMITS)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show what a project may have and has: the asker's or, for administrators, ``project_id``."""
        given, identity = _LIMITS.read(req), req.context.identity
        project_id = given.get("project_id") or given.get("tenant_id") or identity.project_id or ""
        self._tools.policy.require(identity, policies.USED_LIMITS, project_id)
        self._beside.read([project_id])
        with self._tools.database.reading() as session:
            found = limit_rows.read(session, self._defaults, {project_id})
            shares = self._used(session, project_id)
        absolute = {}
        for resource, (most, so_far) in _ABSOLUTE.items():
            used = self._usage(Item(resource), 0, shares, project_id, "")
            absolute[most] = found.of_project(project_id, Item(resource))
            absolute[so_far] = used.in_use + used.reserved
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
    """Return what limits are sent for. Raises :class:`~tonnage.capacity.errors.InvalidInput` for unknown names."""
    ids = {name: type_id for type_id, name in names.items()}
    found = {name: limits.parse(name, ids) for name in sent}
    if unknown := sorted(name for name, item in found.items() if item is None):
        raise errors.InvalidInput(f"Bad key(s) in quota set: {', '.join(unknown)}")
    return {item: sent[name] for name, item in found.items() if item is not None}


def _fitting(name: str, value: str) -> str:
    if len(value) > _LONGEST:
        raise errors.InvalidInput(f"{name} has {len(value)} characters: it takes at most {_LONGEST}")
    return value
