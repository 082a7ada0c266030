# SPDX-License-Identifier: Apache-2.0
"""Volumes: create, show, list, update, delete."""

from collections.abc import Callable
from collections.abc import Mapping

import falcon
from oslo_context.context import RequestContext

from tonnage.api import listing
from tonnage.api import microversions
from tonnage.api import policies
from tonnage.api import schemas
from tonnage.api import views
from tonnage.api.http import Request
from tonnage.api.requests import Requests
from tonnage.api.resources.base import Tools
from tonnage.api.resources.base import refused
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger import volumes
from tonnage.rpc.messages import CreateGroup
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import DeleteVolume


class Volumes:
    """``/volumes``."""

    def __init__(self, tools: Tools, requests: Requests) -> None:
        self._tools, self._requests = tools, requests

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a volume, or several, all or none: 202 once their pools are chosen, 409 and the reasons if not."""
        self._tools.policy.require(req.context.identity, policies.VOLUME_CREATE)
        request = self._requests.read_any(req)
        if isinstance(request, CreateGroup):
            self._create_several(req, resp, request)
        else:
            self._create_one(req, resp, request)

    def _create_one(self, req: Request, resp: falcon.Response, request: CreateVolume) -> None:
        tools = self._tools
        answer = tools.scheduler.create(request)
        if refused(resp, answer.refusal):
            return
        with tools.database.reading() as session:
            volume = volumes.get(session, answer.volume_id, request.project_id)
        resp.status = falcon.HTTP_202
        resp.media = {"volume": views.VolumeView.for_request(req, tools.policy).detail(volume)}

    def _create_several(self, req: Request, resp: falcon.Response, request: CreateGroup) -> None:
        tools = self._tools
        answer = tools.scheduler.create_group(request)
        if refused(resp, answer.refusal):
            return
        with tools.database.reading() as session:
            made = volumes.several(session, [each.volume_id for each in answer.volumes])
        view = views.VolumeView.for_request(req, tools.policy)
        resp.status = falcon.HTTP_202
        resp.media = {"volumes": [view.detail(volume) for volume in made]}

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List volumes in short."""
        self._list(req, resp, lambda view, volume: view.summary(volume))

    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        """List volumes in full."""
        self._list(req, resp, lambda view, volume: view.detail(volume))

    def _list(
        self,
        req: Request,
        resp: falcon.Response,
        show: Callable[[views.VolumeView, models.Volume], views.View],
    ) -> None:
        tools = self._tools
        tools.policy.require(req.context.identity, policies.VOLUME_GET_ALL)
        given = listing.parameters(req)
        page, query = tools.lists.page(given), self._query(req.context.identity, given)
        counted = req.at_least(microversions.VOLUME_LIST_COUNT) and listing.flag(given, "with_count")
        with tools.database.reading() as session:
            found = volumes.page(session, query, page)
            count = {"count": volumes.count(session, query)} if counted else {}
        view = views.VolumeView.for_request(req, tools.policy)
        resp.media = {
            "volumes": [show(view, volume) for volume in found],
            **tools.lists.links(req, "volumes", page, found),
            **count,
        }

    def _query(self, identity: RequestContext, given: Mapping[str, str]) -> volumes.Query:
        filters = listing.filters(given, volumes.FILTERS)
        everywhere = listing.flag(given, "all_tenants") and self._tools.policy.allows(identity, policies.IS_ADMIN)
        return volumes.Query(project_id=None if everywhere else identity.project_id, filters=filters)


class Volume:
    """``/volumes/{volume_id}``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def on_get(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Show a volume."""
        volume = self._tools.seen(req, volume_id, policies.VOLUME_GET)
        resp.media = {"volume": views.VolumeView.for_request(req, self._tools.policy).detail(volume)}

    def on_put(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Change a volume's name, description or metadata."""
        tools = self._tools
        volume = self._tools.seen(req, volume_id, policies.VOLUME_UPDATE)
        sent = tools.bodies.read(req, schemas.UpdateVolume).volume
        changes = volumes.Changes(name=sent.name, description=sent.description, metadata=sent.metadata)
        volume = tools.database.run(volumes.update, volume.id, volume.project_id, changes)
        resp.media = {"volume": views.VolumeView.for_request(req, tools.policy).detail(volume)}

    def on_delete(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Have a volume deleted: 202, and it is gone once the storage has told so."""
        volume = self._tools.seen(req, volume_id, policies.VOLUME_DELETE)
        if listing.flag(listing.parameters(req), "force"):
            raise errors.InvalidInput("force is true: a volume is deleted in order or not at all; leave force out")
        self._tools.scheduler.delete(DeleteVolume(request_id=req.context.identity.request_id, volume_id=volume.id))
        resp.status = falcon.HTTP_202
