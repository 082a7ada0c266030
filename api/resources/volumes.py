# SPDX-License-Identifier: Apache-2.0
"""Volumes: create, show, list, update, delete, and the actions on them."""

import logging
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import falcon
import msgspec
from oslo_context.context import RequestContext

from tonnage.api import body
from tonnage.api import faults
from tonnage.api import listing
from tonnage.api import microversions
from tonnage.api import policies
from tonnage.api import schemas
from tonnage.api import views
from tonnage.api.http import Request
from tonnage.api.resources.base import Tools
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger import volume_types
from tonnage.ledger import volumes
from tonnage.rpc.messages import Answer
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import DeleteVolume
from tonnage.rpc.messages import ExtendVolume

LOG = logging.getLogger(__name__)


def refused(resp: falcon.Response, answer: Answer) -> bool:
    """Tell whether an answer is a refusal, and make it the response if so."""
    if answer.refusal is None:
        return False
    faults.write(resp, 409, answer.refusal.message, refusal=msgspec.to_builtins(answer.refusal))
    return True


class Requests:
    """Turns a body into the request for a new volume."""

    def __init__(self, tools: Tools, default_type: str | None) -> None:
        self._tools, self._default_type = tools, default_type

    def read(self, req: Request) -> CreateVolume:
        """Return what the request asks for, its type resolved.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` and, for a type that the asker cannot see,
        :class:`~tonnage.capacity.errors.NotFound`.
        """
        sent = self._tools.bodies.read(req, schemas.CreateVolume)
        wanted, identity = sent.volume, req.context.identity
        return CreateVolume(
            request_id=identity.request_id,
            volume_id=str(uuid.uuid4()),
            size_gb=int(wanted.size),
            project_id=identity.project_id or "",
            user_id=identity.user_id or "",
            name=None if wanted.name is None else wanted.name.strip(),
            description=None if wanted.description is None else wanted.description.strip(),
            volume_type=self._volume_type(wanted.volume_type, identity),
            availability_zone=wanted.availability_zone or None,
            metadata=wanted.metadata or {},
            hints=sent.hints or wanted.hints or {},
        )

    def _volume_type(self, asked: str | None, identity: RequestContext) -> str | None:
        name = asked or self._default_type
        if name is None:
            return None
        only_public = not self._tools.policy.allows(identity, policies.IS_ADMIN)
        with self._tools.database.reading() as session:
            try:
                return volume_types.find(session, name, only_public=only_public).id
            except errors.NotFound:
                if asked:
                    raise
                LOG.error("option default_volume_type names %r, and there is no such volume type", name)
                raise errors.InvalidInput(
                    f"The default volume type {name!r} does not exist: name a volume_type, or have the operator create "
                    "it or change the option default_volume_type."
                ) from None


class Volumes:
    """``/volumes``."""

    def __init__(self, tools: Tools, requests: Requests) -> None:
        self._tools, self._requests = tools, requests

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a volume: 202 once its pool is chosen, 409 and the reasons if there is none."""
        tools, identity = self._tools, req.context.identity
        tools.policy.require(identity, policies.VOLUME_CREATE)
        request = self._requests.read(req)
        if refused(resp, tools.scheduler.create(request)):
            return
        with tools.database.reading() as session:
            volume = volumes.get(session, request.volume_id, request.project_id)
        resp.status = falcon.HTTP_202
        resp.media = {"volume": views.VolumeView.for_request(req, tools.policy).detail(volume)}

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
    """``/volumes/{volume_id}`` and its actions."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._actions: Mapping[str, Callable[[Request, falcon.Response, str, Any], None]] = {
            "os-extend": self._extend,
            "os-reset_status": self._reset_status,
        }

    def on_get(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Show a volume."""
        volume = self._seen(req, volume_id, policies.VOLUME_GET)
        resp.media = {"volume": views.VolumeView.for_request(req, self._tools.policy).detail(volume)}

    def on_put(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Change a volume's name, description or metadata."""
        tools = self._tools
        volume = self._seen(req, volume_id, policies.VOLUME_UPDATE)
        sent = tools.bodies.read(req, schemas.UpdateVolume).volume
        changes = volumes.Changes(name=sent.name, description=sent.description, metadata=sent.metadata)
        volume = tools.database.run(volumes.update, volume.id, volume.project_id, changes)
        resp.media = {"volume": views.VolumeView.for_request(req, tools.policy).detail(volume)}

    def on_delete(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Have a volume deleted: 202, and it is gone once the storage has told so."""
        volume = self._seen(req, volume_id, policies.VOLUME_DELETE)
        if listing.flag(listing.parameters(req), "force"):
            raise errors.InvalidInput("force is true: a volume is deleted in order or not at all; leave force out")
        self._tools.scheduler.delete(DeleteVolume(request_id=req.context.identity.request_id, volume_id=volume.id))
        resp.status = falcon.HTTP_202

    def on_post_action(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Do what the body's only key names."""
        sent = self._tools.bodies.decode(req)
        if len(sent) != 1:
            raise errors.InvalidInput(f"the body names {len(sent)} actions: expected exactly one")
        name, arguments = next(iter(sent.items()))
        if name not in self._actions:
            known = ", ".join(sorted(self._actions))
            raise errors.InvalidInput(f"There is no such action: {name[:64]}. Known are {known}.")
        resp.status = falcon.HTTP_202
        self._actions[name](req, resp, volume_id, arguments)

    def _extend(self, req: Request, resp: falcon.Response, volume_id: str, arguments: Any) -> None:
        volume = self._seen(req, volume_id, policies.VOLUME_EXTEND)
        size = body.convert(arguments, schemas.Extend).new_size
        request_id = req.context.identity.request_id
        refused(
            resp,
            self._tools.scheduler.extend(
                ExtendVolume(request_id=request_id, volume_id=volume.id, new_size_gb=int(size))
            ),
        )

    def _reset_status(self, req: Request, resp: falcon.Response, volume_id: str, arguments: Any) -> None:
        volume = self._seen(req, volume_id, policies.VOLUME_RESET_STATUS)
        status = body.convert(arguments, schemas.ResetStatus).status
        self._tools.database.run(volumes.reset_status, volume.id, status)

    def _seen(self, req: Request, volume_id: str, rule: str) -> models.Volume:
        """Return a volume that the asker can see and may do this to.

        One path for all: a volume of another project is answered as one that does not exist.
        """
        policy, identity = self._tools.policy, req.context.identity
        with self._tools.database.reading() as session:
            volume = volumes.get(session, volume_id, policy.reach(identity))
        policy.require(identity, rule, volume.project_id)
        return volume
