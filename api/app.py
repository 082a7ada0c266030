# SPDX-License-Identifier: Apache-2.0
"""The WSGI application of the REST API: middleware, routes and error handlers."""

from collections.abc import Iterable

import falcon
import msgspec
from falcon import media
from oslo_config import cfg

from tonnage.api import extension_parts
from tonnage.api.auth import authentication, noauth_identity, policies
from tonnage.api.auth.enforcement import Policy
from tonnage.api.context import views
from tonnage.api.context.listing_requests import ListingRequests
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.context.volume_requests import RequestReader
from tonnage.api.extension_parts import ApiParts
from tonnage.api.http import faults, microversions, middleware
from tonnage.api.http.annotations import Route
from tonnage.api.http.body import BodyReader
from tonnage.api.http.http_request import Request, WsgiApp
from tonnage.api.http.list_query import Paginator
from tonnage.api.monitoring import request_metrics
from tonnage.api.resources import (
    backend_capabilities,
    discovery,
    groups,
    health,
    manageable_volumes,
    qos_specs,
    quotas,
    scheduler_stats,
    services,
    types,
    unsupported_objects,
    user_messages,
    volume_actions,
    volumes,
)
from tonnage.ledger.db.database import Database
from tonnage.quotas import usage_sources
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import BackendState

#: The last part of a path, the key of metadata or of a spec, which may contain slashes.
_KEY, _KEY_WITH_SLASHES = "{key}", "{key:path}"

#: Some clients add the project to the path, others do not.
_PREFIXES = ("/v3", "/v3/{url_project}")


def build(
    conf: cfg.ConfigOpts,
    database: Database,
    scheduler: SchedulerClient,
    authenticator: authentication.Authenticator,
) -> WsgiApp:
    """Return the application.

    ``conf`` has the options of :mod:`tonnage.api.options`, of :mod:`tonnage.api.http.middleware` and of the enabled
    extensions.

    With ``auth_strategy = noauth`` it is also an Identity service, for clients that need one.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable options.
    """
    limit = middleware.body_limit(conf)
    app: faults.App = falcon.App(
        request_type=Request,
        middleware=[
            *([request_metrics.RequestMetrics()] if conf.metrics.enabled else []),
            middleware.RequestLimits(limit),
            microversions.MicroversionMiddleware(),
            authentication.Authentication(authenticator, conf.cors.allowed_origin or ()),
        ],
    )
    app.req_options.strip_url_path_trailing_slash = True
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = media.JSONHandler(dumps=msgspec.json.encode)
    context = ResourceContext(
        database, scheduler, Policy(conf), BodyReader(limit), Paginator(conf.osapi_max_limit), conf.service_down_time
    )
    parts = all_parts(conf, context)
    statuses = {error: status for part in parts for error, status in part.statuses.items()}
    faults.install(app, statuses, context.may_see_causes)
    for part in parts:
        for path, resource, suffix in (*part.unversioned_routes, *part.files):
            app.add_route(path, resource, suffix=suffix)
        for path, resource, suffix in part.routes:
            for prefix in _PREFIXES:
                app.add_route(prefix + path.replace(_KEY, _KEY_WITH_SLASHES), resource, suffix=suffix)
    if conf.auth_strategy == "noauth":
        noauth_identity.add_routes(app, context.bodies)
    app.add_route(discovery.PATH, openapi(conf, parts))
    return middleware.wrap(app, conf)


def all_parts(conf: cfg.ConfigOpts, context: ResourceContext) -> list[ApiParts]:
    """Return the routes of the core, and the parts of the enabled extensions."""
    check = health.Health(context, conf.service_down_time, conf.healthcheck.disable_by_file_path)
    core = ApiParts(
        routes=versioned_routes(conf, context),
        unversioned_routes=[
            ("/", discovery.Versions(300), None),
            ("/v3", discovery.Versions(200), None),
            ("/healthcheck", check, None),
        ],
    )
    return [core, *extension_parts.load(conf, context, check.reasons).values()]


def documented_routes(parts: Iterable[ApiParts]) -> list[Route]:
    """Return all routes with their full paths; the paths below ``/v3`` have no project. Files are left out."""
    return [
        (prefix + path, resource, suffix)
        for part in parts
        for prefix, routes in (("", part.unversioned_routes), ("/v3", part.routes))
        for path, resource, suffix in routes
    ]


def openapi(conf: cfg.ConfigOpts, parts: Iterable[ApiParts]) -> discovery.OpenApi:
    """Return the resource with the OpenAPI document of these parts."""
    return discovery.OpenApi(documented_routes(parts), policies.enabled_rules(conf), conf.auth_strategy)


def versioned_routes(conf: cfg.ConfigOpts, context: ResourceContext) -> list[Route]:
    """Return the routes below ``/v3``: path, resource, and the suffix of the resource's methods."""
    reader = RequestReader(context, conf.default_volume_type)
    all_volumes = volumes.Volumes(context, reader)
    association = qos_specs.Association(context)
    listing_requests = ListingRequests(context.database, context.scheduler, conf.service_down_time)
    manageable = manageable_volumes.ManageableVolumes(context, reader, listing_requests)
    quota_settings = usage_sources.quota_settings(conf, context.database)
    service_view = views.ServiceView(conf.service_down_time, conf.cinder_service_names)
    unsupported_change = services.UnsupportedChange(context)
    quota_sets = quotas.QuotaSets(context, quota_settings)
    all_groups = groups.Groups(context, conf.storage_availability_zone, reader, quota_settings)
    return [
        ("/volumes", all_volumes, None),
        ("/volumes/detail", all_volumes, "detail"),
        ("/volumes/summary", all_volumes, "summary"),
        ("/volumes/{volume_id}", volumes.Volume(context), None),
        ("/volumes/{volume_id}/metadata", volumes.Metadata(context), None),
        ("/volumes/{volume_id}/metadata/{key}", volumes.MetadataItem(context), None),
        ("/volumes/{volume_id}/encryption", volumes.Encryption(context), None),
        ("/volumes/{volume_id}/action", volume_actions.Actions(context, reader), None),
        ("/manageable_volumes", manageable, None),
        ("/manageable_volumes/detail", manageable, "detail"),
        ("/os-volume-manage", manageable, None),
        ("/os-volume-manage/detail", manageable, "detail"),
        ("/types", types.Types(context), None),
        ("/types/default", types.DefaultType(context, conf.default_volume_type), None),
        ("/types/{type_id}", types.Type(context, conf.default_volume_type), None),
        ("/types/{type_id}/action", types.TypeActions(context), None),
        ("/types/{type_id}/os-volume-type-access", types.Access(context), None),
        ("/types/{type_id}/extra_specs", types.ExtraSpecs(context), None),
        ("/types/{type_id}/extra_specs/{key}", types.ExtraSpec(context), None),
        ("/qos-specs", qos_specs.QosSpecsCollection(context), None),
        ("/qos-specs/{specs_id}", qos_specs.QosSpecsItem(context), None),
        ("/qos-specs/{specs_id}/delete_keys", qos_specs.SpecKeys(context), None),
        ("/qos-specs/{specs_id}/associations", qos_specs.Associations(context), None),
        ("/qos-specs/{specs_id}/associate", association, "associate"),
        ("/qos-specs/{specs_id}/disassociate", association, "disassociate"),
        ("/qos-specs/{specs_id}/disassociate_all", association, "disassociate_all"),
        ("/scheduler-stats/get_pools", scheduler_stats.Pools(context), None),
        ("/scheduler-stats/explain", scheduler_stats.Explain(context, reader), None),
        ("/scheduler-stats/refusals", scheduler_stats.Refusals(context), None),
        ("/scheduler-stats/ledger/{overview}", scheduler_stats.LedgerOverview(context, conf.service_down_time), None),
        ("/scheduler-stats/why", scheduler_stats.Why(context, reader), None),
        ("/scheduler-stats/what-if", scheduler_stats.WhatIfSimulation(context, reader), None),
        ("/os-services", services.Services(context, service_view), None),
        ("/os-services/enable", services.ChangeService(context, BackendState.ENABLED), None),
        ("/os-services/disable", services.ChangeService(context, BackendState.DISABLED), None),
        ("/os-services/disable-log-reason", services.ChangeService(context, BackendState.DISABLED), "reason"),
        ("/os-services/freeze", unsupported_change, None),
        ("/os-services/thaw", unsupported_change, None),
        ("/os-services/failover_host", unsupported_change, None),
        ("/os-services/failover", unsupported_change, None),
        ("/os-services/set-log", unsupported_change, "log"),
        ("/os-services/get-log", unsupported_change, "log"),
        ("/workers/cleanup", unsupported_change, "cleanup"),
        ("/os-services/drain", services.ChangeService(context, BackendState.DRAINING), "drain"),
        ("/os-availability-zone", services.AvailabilityZones(context), None),
        ("/os-hosts", services.Hosts(context, service_view), None),
        ("/os-hosts/{host}", services.Host(context), None),
        ("/capabilities/{host}", backend_capabilities.BackendCapabilities(context), None),
        ("/os-quota-sets/{project_id}", quota_sets, None),
        ("/os-quota-sets/{project_id}/defaults", quota_sets, "defaults"),
        ("/os-quota-class-sets/{class_name}", quotas.QuotaClassSets(context, quota_settings), None),
        ("/limits", quotas.AbsoluteLimits(context, quota_settings), None),
        ("/messages", user_messages.Messages(context), None),
        ("/messages/{message_id}", user_messages.Message(context), None),
        ("/extensions", discovery.Extensions(), None),
        ("/resource_filters", discovery.ResourceFilters(), None),
        ("/groups", all_groups, None),
        ("/groups/detail", all_groups, "detail"),
        ("/groups/action", all_groups, "action"),
        ("/groups/{group_id}", groups.Group(context, conf.storage_availability_zone), None),
        ("/groups/{group_id}/action", groups.GroupActions(context), None),
        ("/group_types", types.GroupTypes(context), None),
        ("/group_types/default", types.DefaultGroupType(context), None),
        ("/group_types/{group_type_id}", types.GroupType(context), None),
        ("/group_types/{group_type_id}/group_specs", types.GroupSpecs(context), None),
        ("/group_types/{group_type_id}/group_specs/{key}", types.GroupSpec(context), None),
        *unsupported_objects.routes(context),
    ]
