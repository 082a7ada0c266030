# SPDX-License-Identifier: Apache-2.0
"""Volumes and their metadata: create, show, list, update, delete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import falcon
from msgspec import UNSET, UnsetType

from tonnage.api.auth import policies
from tonnage.api.http import list_query, microversions
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools, refused
from tonnage.api.schemas import response_bodies, views, volume_bodies
from tonnage.api.volume_requests import IDEMPOTENCY_KEY, Requests
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import groups, volumes
from tonnage.ledger.db import filter_values
from tonnage.rpc.batching.call_batcher import CallBatcher
from tonnage.rpc.messages import CreateGroup, CreateVolume, DeleteVolume

_PATTERNS = {"metadata": filter_values.PATTERN}
_QUERY = Query(
    sort_keys=volumes.SORT_KEYS,
    flags=("all_tenants", "with_count"),
    filters=volumes.FILTERS,
    patterns=_PATTERNS,
)
_SUMMARY_QUERY = Query(flags=("all_tenants",), filters=volumes.FILTERS, patterns=_PATTERNS)
_DELETE_QUERY = Query(flags=("force", "cascade"), more="ignored")


@dataclass(frozen=True, slots=True)
class _Page:
    view: views.VolumeView
    found: Sequence[models.Volume]
    links: list[response_bodies.Link] | UnsetType
    count: int | UnsetType


class Volumes:
    """``/volumes``."""

    def __init__(self, tools: Tools, requests: Requests) -> None:
        self._tools, self._requests = tools, requests
        # Volumes that are placed together are read together.
        self._made: CallBatcher[str, models.Volume | None] = CallBatcher(self._read, max_in_flight=1)

    @operation(
        {202: (response_bodies.Volume, response_bodies.MadeVolumes)},
        bodies=(volume_bodies.CreateVolume, volume_bodies.CreateVolumes),
        headers=(IDEMPOTENCY_KEY,),
        errors=(404, 409),
    )
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
        volume = self._made.call(answer.volume_id)
        if volume is None:
            raise errors.NotFound(f"Volume {answer.volume_id} could not be found.")
        resp.status = falcon.HTTP_202
        resp.media = response_bodies.Volume(views.VolumeView.for_request(req, tools.policy).detail(volume))

    def _read(self, volume_ids: Sequence[str]) -> list[models.Volume | None]:
        with self._tools.database.reading() as session:
            found = {volume.id: volume for volume in volumes.several(session, volume_ids)}
        return [found.get(volume_id) for volume_id in volume_ids]

    def _create_several(self, req: Request, resp: falcon.Response, request: CreateGroup) -> None:
        tools = self._tools
        answer = tools.scheduler.create_group(request)
        if refused(resp, answer.refusal):
            return
        with tools.database.reading() as session:
            made = volumes.several(session, [each.volume_id for each in answer.volumes])
        view = views.VolumeView.for_request(req, tools.policy)
        resp.status = falcon.HTTP_202
        resp.media = response_bodies.MadeVolumes([view.detail(volume) for volume in made])

    @operation({200: response_bodies.VolumeSummaries}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List volumes in short."""
        page = self._page(req)
        resp.media = response_bodies.VolumeSummaries(
            volumes=[page.view.summary(volume) for volume in page.found], volumes_links=page.links, count=page.count
        )

    @operation({200: response_bodies.VolumeDetails}, query=_QUERY, errors=(404,))
    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        """List volumes in full."""
        page = self._page(req)
        resp.media = response_bodies.VolumeDetails(
            volumes=[page.view.detail(volume) for volume in page.found], volumes_links=page.links, count=page.count
        )

    @operation({200: response_bodies.VolumesSummary}, query=_SUMMARY_QUERY, errors=(404,))
    def on_get_summary(self, req: Request, resp: falcon.Response) -> None:
        """Add up volumes; from 3.36 on also what their metadata say."""
        tools = self._tools
        tools.policy.require(req.context.identity, policies.VOLUME_GET_ALL)
        if not req.at_least(microversions.VOLUME_SUMMARY):
            raise errors.NotFound("Volume summary could not be found.")
        query = self._query(req, _SUMMARY_QUERY.read(req))
        with tools.database.reading() as session:
            count, size = volumes.totals(session, query)
            with_metadata = req.at_least(microversions.VOLUME_SUMMARY_METADATA)
            metadata = volumes.all_metadata(session, query) if with_metadata else UNSET
        resp.media = response_bodies.VolumesSummary(response_bodies.Totals(count, size, metadata))

    def _page(self, req: Request) -> _Page:
        tools = self._tools
        tools.policy.require(req.context.identity, policies.VOLUME_GET_ALL)
        given = _QUERY.read(req)
        part, query = tools.lists.page(given), self._query(req, given)
        counted = req.at_least(microversions.VOLUME_LIST_COUNT) and list_query.flag(given, "with_count")
        with tools.database.reading() as session:
            found = volumes.page(session, query, part)
            count = volumes.count(session, query) if counted else UNSET
        view = views.VolumeView.for_request(req, tools.policy)
        return _Page(view, found, tools.lists.links(req, part, found), count)

    def _query(self, req: Request, given: Mapping[str, str]) -> volumes.Query:
        identity = req.context.identity
        everywhere = list_query.flag(given, "all_tenants") and self._tools.policy.allows(identity, policies.IS_ADMIN)
        filters = _QUERY.chosen(given)
        if not req.at_least(microversions.VOLUME_LIST_GROUP):
            filters.pop("group_id", None)  # as in Cinder, where nothing was known of it before
        if volumes.HOST_FILTERS & filters.keys():
            # Otherwise one could find out by trying what is not shown.
            self._tools.policy.require(identity, policies.VOLUME_HOST)
        return volumes.Query(project_id=None if everywhere else identity.project_id, filters=filters)


class Volume:
    """``/volumes/{volume_id}``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: response_bodies.Volume})
    def on_get(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Show a volume."""
        volume = self._tools.seen(req, volume_id, policies.VOLUME_GET)
        resp.media = response_bodies.Volume(views.VolumeView.for_request(req, self._tools.policy).detail(volume))

    @operation({200: response_bodies.Volume}, bodies=(volume_bodies.UpdateVolume,))
    def on_put(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Change a volume's name, description or metadata."""
        tools = self._tools
        volume = self._tools.seen(req, volume_id, policies.VOLUME_UPDATE)
        sent = tools.bodies.read(req, volume_bodies.UpdateVolume).volume
        changes = volumes.Changes(name=sent.name, description=sent.description, metadata=sent.metadata)
        volume = tools.database.run(volumes.update, volume.id, volume.project_id, changes)
        resp.media = response_bodies.Volume(views.VolumeView.for_request(req, tools.policy).detail(volume))

    @operation({202: None}, query=_DELETE_QUERY)
    def on_delete(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Have a volume deleted: 202, and it is gone once the storage has told so.

        ``force`` is for administrators and makes no difference: there is no status that only force would get out of,
        and an operation that is under way is never cut off. Volumes have no snapshots that ``cascade`` would delete.
        """
        given = _DELETE_QUERY.read(req)
        forced = req.at_least(microversions.DELETE_FORCE) and list_query.flag(given, "force")
        volume = self._tools.seen(req, volume_id, policies.VOLUME_FORCE_DELETE if forced else policies.VOLUME_DELETE)
        groups.require_free(volume, "deleted")
        self._tools.scheduler.delete(DeleteVolume(request_id=req.context.identity.request_id, volume_id=volume.id))
        resp.status = falcon.HTTP_202


class Metadata:
    """``/volumes/{volume_id}/metadata``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: response_bodies.Metadata})
    def on_get(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Show the metadata of a volume."""
        resp.media = response_bodies.Metadata(self._tools.seen(req, volume_id, policies.METADATA_GET).user_metadata)

    @operation({200: response_bodies.Metadata}, bodies=(volume_bodies.SetMetadata,))
    def on_post(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Set some items and leave the others."""
        self._set(req, resp, volume_id, policies.METADATA_CREATE, replace=False)

    @operation({200: response_bodies.Metadata}, bodies=(volume_bodies.SetMetadata,))
    def on_put(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Set these items in place of all others."""
        self._set(req, resp, volume_id, policies.METADATA_UPDATE, replace=True)

    def _set(self, req: Request, resp: falcon.Response, volume_id: str, rule: str, *, replace: bool) -> None:
        tools = self._tools
        volume = tools.seen(req, volume_id, rule)
        items = tools.bodies.read(req, volume_bodies.SetMetadata).metadata
        set_to = tools.database.run(volumes.set_metadata, volume.id, volume.project_id, items, replace=replace)
        resp.media = response_bodies.Metadata(set_to)


class MetadataItem:
    """``/volumes/{volume_id}/metadata/{key}``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: response_bodies.MetadataItem})
    def on_get(self, req: Request, resp: falcon.Response, volume_id: str, key: str) -> None:
        """Show one item of the metadata."""
        metadata = self._tools.seen(req, volume_id, policies.METADATA_GET).user_metadata
        if key not in metadata:
            raise errors.NotFound(volumes.no_metadata(volume_id, key))
        resp.media = response_bodies.MetadataItem({key: metadata[key]})

    @operation({200: response_bodies.MetadataItem}, bodies=(volume_bodies.SetMetadataItem,))
    def on_put(self, req: Request, resp: falcon.Response, volume_id: str, key: str) -> None:
        """Set one item, which the body names again."""
        tools = self._tools
        volume = tools.seen(req, volume_id, policies.METADATA_UPDATE)
        item = tools.bodies.read(req, volume_bodies.SetMetadataItem).meta
        if list(item) != [key]:
            raise errors.InvalidInput(f"the body names {', '.join(map(repr, item))}: expected {key!r} alone")
        tools.database.run(volumes.set_metadata, volume.id, volume.project_id, item, replace=False)
        resp.media = response_bodies.MetadataItem(item)

    @operation({200: None})
    def on_delete(self, req: Request, resp: falcon.Response, volume_id: str, key: str) -> None:
        """Remove one item."""
        volume = self._tools.seen(req, volume_id, policies.METADATA_DELETE)
        self._tools.database.remove(volumes.unset_metadata, volume.id, volume.project_id, key)
