# SPDX-License-Identifier: Apache-2.0
"""The WSGI application: middleware, routes and errors put together."""

import falcon
import msgspec
from falcon import media
from oslo_config import cfg

from tonnage.api.auth import authentication, noauth_identity
from tonnage.api.auth.enforcement import Policy
from tonnage.api.http import faults, microversions, middleware, request_limits
from tonnage.api.http.body import BodyReader
from tonnage.api.http.pagination import Lists
from tonnage.api.http.request import Request, WsgiApp
from tonnage.api.openapi.annotations import Route
from tonnage.api.resource_context import Tools
from tonnage.api.resources import (
    backend_capabilities,
    csi_capacity,
    extensions,
    group_types,
    groups,
    health,
    manageable_volumes,
    qos_specs,
    quotas,
    scheduler_stats,
    services,
    types,
    user_messages,
    versions,
    volume_actions,
    volumes,
)
from tonnage.api.volume_requests import Requests
from tonnage.k8s.fit.node_queries import NodeQueries
from tonnage.ledger.db.database import Database
from tonnage.placement import factory as placement
from tonnage.rpc.messages import BackendState
from tonnage.rpc.scheduler_client import SchedulerClient

#: Clients put the project into the address or leave it out.
_PREFIXES = ("/v3", "/v3/{url_project}")


def build(
    conf: cfg.ConfigOpts,
    database: Database,
    scheduler: SchedulerClient,
    authenticator: authentication.Authenticator,
    *,
    with_identity: bool = False,
) -> WsgiApp:
    """Return the application. ``conf`` has the options of :mod:`tonnage.api.options`.

    ``with_identity`` has it answer as an Identity service as well: for clients that need one, where nobody is asked who
    he is.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for options that cannot work.
    """
    limit = request_limits.limit(conf)
    app: faults.App = falcon.App(
        request_type=Request,
        middleware=[
            request_limits.Guard(limit),
            microversions.Microversion(),
            authentication.Authentication(authenticator),
        ],
    )
    app.req_options.strip_url_path_trailing_slash = True
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = media.JSONHandler(dumps=msgspec.json.encode)
    faults.install(app)
    tools = Tools(database, scheduler, Policy(conf), BodyReader(limit), Lists(conf.osapi_max_limit))
    for path, resource, suffix in routes_alone(conf, tools):
        app.add_route(path, resource, suffix=suffix)
    for path, resource, suffix in routes(conf, tools):
        for prefix in _PREFIXES:
            app.add_route(prefix + path, resource, suffix=suffix)
    if with_identity:
        noauth_identity.add(app, tools.bodies)
    app.add_route(versions.PATH, versions.OpenApi(everything(conf, tools), conf.auth_strategy))
    return middleware.wrap(app, conf)


def routes_alone(conf: cfg.ConfigOpts, tools: Tools) -> list[Route]:
    """Return what is served by this address alone, and needs no version and no project."""
    out_of_service = conf.healthcheck.disable_by_file_path
    return [
        ("/", versions.Versions(300), None),
        ("/v3", versions.Versions(200), None),
        (
            "/healthcheck",
            health.Health(
                tools.database, lambda: tools.scheduler.bus_takes_messages(), conf.service_down_time, out_of_service
            ),
            None,
        ),
    ]


def routes(conf: cfg.ConfigOpts, tools: Tools) -> list[Route]:
    """Return what is served behind ``/v3``: path, resource, and which of the resource's methods (a suffix)."""
    requests = Requests(tools, conf.default_volume_type)
    all_volumes = volumes.Volumes(tools, requests)
    association = qos_specs.Association(tools)
    on_storage = manageable_volumes.ManageableVolumes(tools, requests)
    quota_settings = placement.quota_settings(conf, tools.database)
    node_queries = NodeQueries(tools.database)
    quota_sets = quotas.QuotaSets(tools, quota_settings)
    all_groups = groups.Groups(tools, requests, quota_settings)
    return [
        ("/volumes", all_volumes, None),
        ("/volumes/detail", all_volumes, "detail"),
        ("/volumes/summary", all_volumes, "summary"),
        ("/volumes/{volume_id}", volumes.Volume(tools), None),
        ("/volumes/{volume_id}/metadata", volumes.Metadata(tools), None),
        ("/volumes/{volume_id}/metadata/{key}", volumes.MetadataItem(tools), None),
        ("/volumes/{volume_id}/action", volume_actions.Actions(tools, requests), None),
        ("/manageable_volumes", on_storage, None),
        ("/manageable_volumes/detail", on_storage, "detail"),
        ("/os-volume-manage", on_storage, None),
        ("/os-volume-manage/detail", on_storage, "detail"),
        ("/types", types.Types(tools), None),
        ("/types/default", types.DefaultType(tools, conf.default_volume_type), None),
        ("/types/{type_id}", types.Type(tools), None),
        ("/types/{type_id}/action", types.TypeActions(tools), None),
        ("/types/{type_id}/os-volume-type-access", types.Access(tools), None),
        ("/types/{type_id}/encryption", extensions.Encryption(tools), None),
        ("/types/{type_id}/extra_specs", types.ExtraSpecs(tools), None),
        ("/types/{type_id}/extra_specs/{key}", types.ExtraSpec(tools), None),
        ("/qos-specs", qos_specs.AllSpecs(tools), None),
        ("/qos-specs/{specs_id}", qos_specs.Specs(tools), None),
        ("/qos-specs/{specs_id}/delete_keys", qos_specs.SpecKeys(tools), None),
        ("/qos-specs/{specs_id}/associations", qos_specs.Associations(tools), None),
        ("/qos-specs/{specs_id}/associate", association, "with"),
        ("/qos-specs/{specs_id}/disassociate", association, "without"),
        ("/qos-specs/{specs_id}/disassociate_all", association, "alone"),
        ("/scheduler-stats/get_pools", scheduler_stats.Pools(tools), None),
        ("/scheduler-stats/explain", scheduler_stats.Explain(tools, requests), None),
        ("/scheduler-stats/what-if", scheduler_stats.AskWhatIf(tools, requests), None),
        ("/os-services", services.Services(tools, conf.service_down_time), None),
        ("/os-services/enable", services.ChangeService(tools, BackendState.ENABLED), None),
        ("/os-services/disable", services.ChangeService(tools, BackendState.DISABLED), None),
        ("/os-services/disable-log-reason", services.ChangeService(tools, BackendState.DISABLED), "reason"),
        ("/os-services/drain", services.ChangeService(tools, BackendState.DRAINING), "drain"),
        ("/os-availability-zone", services.AvailabilityZones(tools), None),
        ("/os-hosts", services.Hosts(tools, conf.service_down_time), None),
        ("/os-hosts/{host}", services.Host(tools), None),
        ("/capabilities/{host}", backend_capabilities.BackendCapabilities(tools), None),
        ("/os-quota-sets/{project_id}", quota_sets, None),
        ("/os-quota-sets/{project_id}/defaults", quota_sets, "defaults"),
        ("/os-quota-class-sets/{class_name}", quotas.QuotaClassSets(tools, quota_settings), None),
        ("/limits", quotas.AbsoluteLimits(tools, quota_settings), None),
        ("/messages", user_messages.Messages(tools), None),
        ("/messages/{message_id}", user_messages.Message(tools), None),
        ("/csi-drivers", csi_capacity.Drivers(tools), None),
        ("/csi-drivers/{driver}", csi_capacity.Driver(tools), None),
        ("/csi-capacity/fit", csi_capacity.Fit(tools, node_queries), None),
        ("/csi-capacity/claims/{holder}", csi_capacity.Claims(tools, node_queries), None),
        ("/extensions", extensions.Extensions(), None),
        ("/resource_filters", extensions.ResourceFilters(), None),
        *_absent(tools, extensions.SNAPSHOTS),
        *_absent(tools, extensions.BACKUPS),
        ("/groups", all_groups, None),
        ("/groups/detail", all_groups, "detail"),
        ("/groups/action", all_groups, "action"),
        ("/groups/{group_id}", groups.Group(tools), None),
        ("/groups/{group_id}/action", groups.GroupActions(tools), None),
        ("/group_types", group_types.GroupTypes(tools), None),
        ("/group_types/default", group_types.DefaultGroupType(tools), None),
        ("/group_types/{group_type_id}", group_types.GroupType(tools), None),
        ("/group_types/{group_type_id}/group_specs", group_types.GroupSpecs(tools), None),
        ("/group_types/{group_type_id}/group_specs/{key}", group_types.GroupSpec(tools), None),
        *_absent(tools, extensions.GROUP_SNAPSHOTS),
    ]


def everything(conf: cfg.ConfigOpts, tools: Tools) -> list[Route]:
    """Return all routes with their whole paths, those behind ``/v3`` without a project."""
    behind = [(f"/v3{path}", resource, suffix) for path, resource, suffix in routes(conf, tools)]
    return [*routes_alone(conf, tools), *behind]


def _absent(tools: Tools, kind: extensions.UnsupportedKind) -> list[Route]:
    collection = extensions.UnsupportedCollection(tools, kind)
    return [
        (f"/{kind.many}", collection, None),
        (f"/{kind.many}/detail", collection, "detail"),
        (f"/{kind.many}/{{item_id}}", extensions.UnsupportedItem(tools, kind), None),
    ]
