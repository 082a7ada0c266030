# SPDX-License-Identifier: Apache-2.0
"""Manageable volumes: volumes of the storage that Tonnage does not manage yet."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import falcon
import msgspec

from tonnage.api.auth import policies
from tonnage.api.context import host_references, views
from tonnage.api.context.listing_requests import ListingRequests
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.context.volume_requests import RequestReader
from tonnage.api.http import list_query
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas import response_bodies, volume_bodies
from tonnage.capacity import errors, type_conversion
from tonnage.ledger.catalog import managed_volumes, volumes
from tonnage.ledger.catalog.managed_volumes import Manageable
from tonnage.rpc import contract
from tonnage.rpc.messages import ManageVolume, PoolQuery

_SORT_KEYS: Mapping[str, Callable[[Manageable], Any]] = {
    "reference": lambda volume: (volume.reference, volume.pool),
    "size": lambda volume: volume.size_gb,
}

_QUERY = Query(sort_keys=_SORT_KEYS, offset=True, filters=("host",), required=("host",))


class ManageableVolumes:
    """``/manageable_volumes``, and its older name ``/os-volume-manage``. A list takes a listing of the backend."""

    def __init__(self, context: ResourceContext, reader: RequestReader, listings: ListingRequests) -> None:
        self._context, self._reader, self._listings = context, reader, listings

    @operation({202: response_bodies.Volume}, bodies=(volume_bodies.Manage,), errors=(404,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Manage an existing volume. It has the status ``creating`` until the storage has reported its size."""
        context, identity = self._context, req.context.identity
        context.policy.require(identity, policies.VOLUME_MANAGE)
        sent = context.bodies.read(req, volume_bodies.Manage).volume
        with context.database.reading() as session:
            reference = host_references.find(session, sent.host)
        pool, zone = reference.single_pool(), reference.availability_zone
        if sent.availability_zone and sent.availability_zone != zone:
            raise errors.InvalidInput(f"availability_zone is {sent.availability_zone!r}: {pool} is in {zone!r}")
        volume_type = self._reader.type_for(sent.volume_type, identity)
        if volume_type is not None and not context.scheduler.call(
            contract.GET_POOLS, PoolQuery(name=pool, volume_type=volume_type)
        ):
            raise errors.InvalidInput(
                f"volume_type is {sent.volume_type or 'the default'!r}: pool {pool} does not match its extra specs"
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
            volume_type=volume_type,
            metadata=sent.metadata or {},
        )
        context.scheduler.call(contract.MANAGE_VOLUME, request)
        volume = context.database.read(volumes.get, request.volume_id, request.project_id)
        resp.status = falcon.HTTP_202
        resp.media = response_bodies.Volume(views.VolumeView.for_request(req, context.policy).managed(volume))

    @operation({200: response_bodies.ManageableVolumes}, query=_QUERY)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the manageable volumes with reference and size."""
        resp.media = response_bodies.ManageableVolumes(
            [views.manageable(volume, detail=False) for volume in self._list(req)]
        )

    @operation({200: response_bodies.ManageableVolumes}, query=_QUERY)
    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        """List the manageable volumes with details."""
        resp.media = response_bodies.ManageableVolumes(
            [views.manageable(volume, detail=True) for volume in self._list(req)]
        )

    def _list(self, req: Request) -> Sequence[Manageable]:
        context = self._context
        context.policy.require(req.context.identity, policies.LIST_MANAGEABLE)
        parameters = _QUERY.read(req)
        with context.database.reading() as session:
            host_reference = host_references.find(session, parameters["host"])
        self._listings.take([host_reference.backend])
        with context.database.reading() as session:
            manageable_volumes = managed_volumes.manageable(session, host_reference.name)
        return _page(manageable_volumes, parameters, context.paginator)


def _page(
    manageable_volumes: list[Manageable], parameters: Mapping[str, str], paginator: list_query.Paginator
) -> Sequence[Manageable]:
    """Return the requested page. Manageable volumes are not rows with ids, so they are sorted here."""
    ordered = parameters.keys() & {"sort", "sort_key"}
    page = paginator.page({**parameters, "offset": "0"} | ({} if ordered else {"sort": "reference"}))
    for order in reversed(page.order):
        if order.key not in _SORT_KEYS:
            raise errors.InvalidInput(f"cannot sort by {order.key!r}: expected one of {', '.join(_SORT_KEYS)}")
        manageable_volumes.sort(key=_SORT_KEYS[order.key], reverse=order.descending)
    start = 0
    if page.marker is not None:
        marker = _reference(page.marker)
        start = next((number for number, volume in enumerate(manageable_volumes, 1) if volume.reference == marker), 0)
        if not start:
            raise errors.InvalidInput(f"marker is {page.marker!r}: there is no such reference")
    start += _offset(parameters.get("offset", "0"))
    return manageable_volumes[start : start + page.limit]


def _reference(marker: str) -> str:
    """Return the name in a marker, ``{"source-name": NAME}`` or the name alone."""
    try:
        return type_conversion.decode(marker, response_bodies.Reference).source_name
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return marker


def _offset(text: str) -> int:
    if not list_query.is_number(text):
        raise errors.InvalidInput(f"offset is {text!r}: expected a whole number")
    return int(text)
