# SPDX-License-Identifier: Apache-2.0
"""Services (schedulers and backends), availability zones and hosts."""

from typing import Annotated

import falcon
from msgspec import UNSET

from tonnage.api.auth import policies
from tonnage.api.context import views
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http import faults, microversions
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas import service_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import volumes
from tonnage.ledger.inventory import capacity_figures, drains
from tonnage.ledger.locks import heartbeats
from tonnage.rpc import contract
from tonnage.rpc.messages import BackendState, SetBackendState

_CHANGE = Annotated[service_bodies.ServiceChange, service_bodies.SERVICE_NAMED]
_DRAIN = Annotated[service_bodies.ServiceDrain, service_bodies.SERVICE_NAMED]
_REASON = Annotated[service_bodies.ServiceReason, service_bodies.SERVICE_NAMED]
_QUERY = Query(filters=("host", "binary"))


class Services:
    """``GET /os-services``."""

    def __init__(self, context: ResourceContext, view: views.ServiceView) -> None:
        self._context, self._view = context, view

    @operation({200: service_bodies.Services}, query=_QUERY)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List schedulers and backends, filtered by ``host`` and ``binary``.

        The name of a host without a backend finds the schedulers and all backends of this host.
        """
        self._context.policy.require(req.context.identity, policies.SERVICES)
        parameters = _QUERY.read(req)
        binary, host = service_bodies.own_name(parameters.get("binary", "")), parameters.get("host")
        with self._context.database.reading() as session:
            rows = heartbeats.load(session)
            progress = drains.load(session) if req.at_least(microversions.OWN_KEYS) else {}
            down = capacity_figures.reported_down(session) if req.at_least(microversions.BACKEND_STATE) else set()
        resp.media = service_bodies.Services(
            [
                self._view.service(row, req, progress.get(row.host), is_reported_down=row.host in down)
                for row in rows
                if host in (None, row.host, row.host.partition("@")[0]) and binary in ("", row.binary)
            ]
        )


class ChangeService:
    """``PUT /os-services/{action}``: set the state of a backend or a scheduler."""

    def __init__(self, context: ResourceContext, state: BackendState) -> None:
        self._context, self._state = context, state

    @operation({200: service_bodies.ServiceChanged}, bodies=(_CHANGE,), errors=(404,))
    def on_put(self, req: Request, resp: falcon.Response) -> None:
        """Enable or disable a backend or a scheduler."""
        self._change(req, resp, service_bodies.ServiceChange)

    @operation({200: service_bodies.ServiceChanged}, bodies=(_REASON,), errors=(404,))
    def on_put_reason(self, req: Request, resp: falcon.Response) -> None:
        """Disable a backend or a scheduler and store the reason."""
        self._change(req, resp, service_bodies.ServiceReason)

    @operation({200: service_bodies.ServiceChanged}, bodies=(_DRAIN,), errors=(404,))
    def on_put_drain(self, req: Request, resp: falcon.Response) -> None:
        """Disable a backend and migrate its volumes to others (an extension of Tonnage)."""
        self._change(req, resp, service_bodies.ServiceDrain)

    def _change(self, req: Request, resp: falcon.Response, body_type: type[service_bodies.ServiceChange]) -> None:
        context = self._context
        context.policy.require(req.context.identity, policies.SERVICES_UPDATE)
        sent = context.bodies.read(req, body_type)
        reason = sent.reason
        enabled = self._state is BackendState.ENABLED
        draining = self._state is BackendState.DRAINING
        if not sent.of_scheduler:
            change = SetBackendState(backend=sent.host, state=self._state, reason=reason)
            context.scheduler.call(contract.SET_BACKEND_STATE, change)
        else:
            context.database.run(heartbeats.set_scheduler_state, sent.host, enabled=enabled, reason=reason)
        resp.media = service_bodies.ServiceChanged(
            host=sent.host,
            service=sent.service or "",
            binary=sent.binary or "",
            status="enabled" if enabled else "disabled",
            disabled=not enabled,
            disabled_reason=reason if isinstance(sent, service_bodies.ReasonedChange) else UNSET,
            draining=draining if req.at_least(microversions.OWN_KEYS) else UNSET,
        )


class UnsupportedChange:
    """Changes of services in Cinder that Tonnage does not support: replication, log levels, and cleaning up."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({}, bodies=(service_bodies.ServiceHost,), errors=(501,))
    def on_put(self, req: Request, resp: falcon.Response) -> None:
        """Reject the request with status 501, or 400 if there is no such backend."""
        self._context.policy.require(req.context.identity, policies.SERVICES_UPDATE)
        host = self._context.bodies.read(req, service_bodies.ServiceHost).host
        with self._context.database.reading() as session:
            backends = {row.host for row in heartbeats.load(session) if row.binary == heartbeats.AGENT}
        if host not in backends:
            raise errors.InvalidInput(f"Host {host} could not be found: expected a backend, host@backend.")
        raise faults.NotSupported("Replication is not supported: disable or drain the backend instead.")

    @operation({}, errors=(404, 501))
    def on_put_log(self, req: Request, resp: falcon.Response) -> None:
        """Reject the request with status 501."""
        self._context.policy.require(req.context.identity, policies.SERVICES_UPDATE)
        microversions.require(req, microversions.LOG_LEVELS)
        raise faults.NotSupported("Log levels cannot be changed by requests: set the option debug and send SIGHUP.")

    @operation({}, errors=(404, 501))
    def on_post_cleanup(self, req: Request, resp: falcon.Response) -> None:
        """Reject the request with status 501."""
        self._context.policy.require(req.context.identity, policies.SERVICES_UPDATE)
        microversions.require(req, microversions.CLEANUP)
        raise faults.NotSupported("Cleaning up is not supported: schedulers recover abandoned claims themselves.")


_HOSTS_QUERY = Query(filters=("service",), other_parameters="ignored")


class AvailabilityZones:
    """``/os-availability-zone``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: service_bodies.Zones})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the zones of the backends. A zone is available unless all its backends are disabled."""
        self._context.policy.require(req.context.identity, policies.ZONES)
        with self._context.database.reading() as session:
            rows = heartbeats.load(session)
        zones: dict[str, bool] = {}
        for row in rows:
            if row.binary == heartbeats.AGENT and row.availability_zone:
                zones[row.availability_zone] = zones.get(row.availability_zone, False) or row.enabled
        resp.media = service_bodies.Zones(
            [service_bodies.Zone(name, {"available": usable}) for name, usable in sorted(zones.items())]
        )


class Hosts:
    """``/os-hosts``."""

    def __init__(self, context: ResourceContext, view: views.ServiceView) -> None:
        self._context, self._view = context, view

    @operation({200: service_bodies.Hosts}, query=_HOSTS_QUERY)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List schedulers and backends."""
        self._context.policy.require(req.context.identity, policies.HOSTS)
        binary = service_bodies.own_name(_HOSTS_QUERY.read(req).get("service", ""))
        with self._context.database.reading() as session:
            rows = heartbeats.load(session)
        resp.media = service_bodies.Hosts([self._view.host(row) for row in rows if binary in ("", row.binary)])


class Host:
    """``/os-hosts/{host}``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: service_bodies.HostUsage})
    def on_get(self, req: Request, resp: falcon.Response, host: str) -> None:
        """Show the number and size of the volumes on a backend, in total and per project."""
        self._context.policy.require(req.context.identity, policies.HOSTS)
        with self._context.database.reading() as session:
            exists = any(row.host == host and row.binary == heartbeats.AGENT for row in heartbeats.load(session))
            if not exists:
                raise errors.NotFound(f"Host {host} could not be found.")
            projects = volumes.per_project(session, host)
        total = ("(total)", sum(count for _, count, _ in projects), sum(size for _, _, size in projects))
        resp.media = service_bodies.HostUsage(
            [service_bodies.HostResource(views.usage(host, *part)) for part in (total, *projects)]
        )
