# SPDX-License-Identifier: Apache-2.0
"""Volumes that are on a storage already: what there is, and taking it over."""

import uuid
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import falcon
import msgspec

from tonnage.api import listing
from tonnage.api import places
from tonnage.api import policies
from tonnage.api import schemas
from tonnage.api import views
from tonnage.api.http import Request
from tonnage.api.requests import Requests
from tonnage.api.resources.base import Tools
from tonnage.capacity import errors
from tonnage.ledger import manages
from tonnage.ledger import volumes
from tonnage.ledger.manages import Manageable
from tonnage.rpc.messages import ManageVolume
from tonnage.rpc.messages import PoolQuery

_SORT_KEYS: Mapping[str, Callable[[Manageable], Any]] = {
    "reference": lambda one: (one.reference, one.pool),
    "size": lambda one: one.size_gb,
}


class _Reference(msgspec.Struct):
    name: str = msgspec.field(name="source-name")


class ManageableVolumes:
    """``/manageable_volumes``, by its older name ``/os-volume-manage``."""

    def __init__(self, tools: Tools, requests: Requests) -> None:
        self._tools, self._requests = tools, requests

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Take something over: 202, and the volume is ``creating`` until the storage has told its size."""
        tools, identity = self._tools, req.context.identity
        tools.policy.require(identity, policies.VOLUME_MANAGE)
        sent = tools.bodies.read(req, schemas.Manage).volume
        with tools.database.reading() as session:
            pool = places.find(session, sent.host).only_pool()
        kind = self._requests.type_for(sent.volume_type, identity)
        if kind is not None and not tools.scheduler.get_pools(PoolQuery(name=pool, volume_type=kind)):
            raise errors.InvalidInput(
                f"volume_type is {sent.volume_type or 'the default'!r}: pool {pool} has not what its extra specs want"
            )
        request = ManageVolume(
            request_id=identity.request_id,
            volume_id=str(uuid.uuid4()),
            pool=pool,
            reference=str(sent.ref),
            project_id=identity.project_id or "",
            user_id=identity.user_id or "",
            name=sent.name,
            description=sent.description,
            volume_type=kind,
            metadata=sent.metadata or {},
        )
        tools.scheduler.manage(request)
        with tools.database.reading() as session:
            volume = volumes.get(session, request.volume_id, request.project_id)
        resp.status = falcon.HTTP_202
        resp.media = {"volume": views.VolumeView.for_request(req, tools.policy).detail(volume)}

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List what can be taken over, in short."""
        resp.media = {"manageable-volumes": [views.manageable(one, detail=False) for one in self._found(req)]}

    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        """List what can be taken over, in full."""
        resp.media = {"manageable-volumes": [views.manageable(one, detail=True) for one in self._found(req)]}

    def _found(self, req: Request) -> Sequence[Manageable]:
        tools = self._tools
        tools.policy.require(req.context.identity, policies.LIST_MANAGEABLE)
        given = listing.parameters(req)
        host = listing.filters(given, ("host",)).get("host")
        if not host:
            raise errors.InvalidInput("host is missing: expected host@backend or host@backend#pool")
        with tools.database.reading() as session:
            found = manages.manageable(session, places.find(session, host).name)
        return _page(found, given, tools.lists)


def _page(found: list[Manageable], given: Mapping[str, str], lists: listing.Lists) -> Sequence[Manageable]:
    """Return the page that is asked for. What is listed is no row with an id: it is ordered here."""
    ordered = given.keys() & {"sort", "sort_key"}
    page = lists.page({**given, "offset": "0"} | ({} if ordered else {"sort": "reference"}))
    for order in reversed(page.order):
        if order.key not in _SORT_KEYS:
            raise errors.InvalidInput(f"cannot sort by {order.key!r}: expected one of {', '.join(_SORT_KEYS)}")
        found.sort(key=_SORT_KEYS[order.key], reverse=order.descending)
    start = 0
    if page.marker is not None:
        marker = _reference(page.marker)
        start = next((number for number, one in enumerate(found, 1) if one.reference == marker), 0)
        if not start:
            raise errors.InvalidInput(f"marker is {page.marker!r}: there is no such reference")
    start += _offset(given.get("offset", "0"))
    return found[start : start + page.limit]


def _reference(marker: str) -> str:
    """Return the name in a marker, ``{"source-name": NAME}`` or the name alone."""
    try:
        return msgspec.json.decode(marker, type=_Reference).name
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return marker


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise errors.InvalidInput(f"offset is {text!r}: expected a whole number")
    return int(text)
