# SPDX-License-Identifier: Apache-2.0
"""Where volumes can be: availability zones, and hosts by the older call for them."""

import falcon

from tonnage.api.auth import policies
from tonnage.api.http.pagination import Query
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.api.schemas import service_bodies, views
from tonnage.capacity import errors
from tonnage.ledger.catalog import volumes
from tonnage.ledger.inventory import heartbeats

_HOSTS_QUERY = Query(filters=("service",), more="ignored")


class AvailabilityZones:
    """``/os-availability-zone``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: service_bodies.Zones})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the zones of the backends; one is available unless all its backends are disabled."""
        self._tools.policy.require(req.context.identity, policies.ZONES)
        with self._tools.database.reading() as session:
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

    def __init__(self, tools: Tools, down_time: int) -> None:
        self._tools, self._down_time = tools, down_time

    @operation({200: service_bodies.Hosts}, query=_HOSTS_QUERY)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List schedulers and backends."""
        self._tools.policy.require(req.context.identity, policies.HOSTS)
        wanted = _HOSTS_QUERY.read(req).get("service")
        with self._tools.database.reading() as session:
            rows = heartbeats.load(session)
        hosts = [views.host(row, self._down_time) for row in rows]
        resp.media = service_bodies.Hosts([host for host in hosts if host.service == (wanted or host.service)])


class Host:
    """``/os-hosts/{host}``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: service_bodies.HostUsage})
    def on_get(self, req: Request, resp: falcon.Response, host: str) -> None:
        """Tell what volumes there are on a backend, in all and of each project."""
        self._tools.policy.require(req.context.identity, policies.HOSTS)
        with self._tools.database.reading() as session:
            known = any(row.host == host and row.binary == heartbeats.AGENT for row in heartbeats.load(session))
            if not known:
                raise errors.NotFound(f"Host {host} could not be found.")
            projects = volumes.per_project(session, host)
        total = ("(total)", sum(count for _, count, _ in projects), sum(size for _, _, size in projects))
        resp.media = service_bodies.HostUsage(
            [service_bodies.HostResource(views.usage(host, *part)) for part in (total, *projects)]
        )
