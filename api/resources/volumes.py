# SPDX-License-Identifier: Apache-2.0
"""Volumes and their metadata."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import falcon
from msgspec import UNSET, UnsetType

from tonnage.api.auth import policies
from tonnage.api.context import views
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.context.volume_requests import IDEMPOTENCY_KEY, RequestReader
from tonnage.api.http import list_query, microversions
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas import response_bodies, volume_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import filter_values, groups, volumes
from tonnage.ledger.inventory import volume_figures
from tonnage.rpc import contract
from tonnage.rpc.clients.call_batcher import CallBatcher
from tonnage.rpc.messages import CreateGroup, DeleteVolume

_PATTERNS = {"metadata": filter_values.PATTERN}
_QUERY = Query(
    sort_keys=volumes.SORT_KEYS,
    flags=("all_tenants", "with_count"),
    filters=volumes.FILTERS,
    patterns=_PATTERNS,
)
_SUMMARY_QUERY = Query(flags=("all_tenants",), filters=volumes.FILTERS, patterns=_PATTERNS)
_DELETE_QUERY = Query(flags=("force", "cascade"), other_parameters="ignored")


@dataclass(frozen=True, slots=True)
class _Page:
    view: views.VolumeView
    rows: Sequence[volumes.VolumeDetails]
    links: list[response_bodies.Link] | UnsetType
    count: int | UnsetType


class Volumes:
    """``/volumes``."""

    def __init__(self, context: ResourceContext, reader: RequestReader) -> None:
        self._context, self._reader = context, reader
        # Volumes that are placed at about the same time are read in one query.
        self._created: CallBatcher[str, volumes.VolumeDetails | None] = CallBatcher(self._read, max_in_flight=1)

    @operation(
        {202: (response_bodies.Volume, response_bodies.MadeVolumes)},
        bodies=(volume_bodies.CreateVolume, volume_bodies.CreateVolumes),
        headers=(IDEMPOTENCY_KEY,),
        errors=(404, 409, 422),
    )
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Create a volume, or several volumes, all or none.

        The status is 202 once pools are chosen, and 409 with the reasons for a refusal.
        """
        self._context.policy.require(req.context.identity, policies.VOLUME_CREATE)
        request = self._reader.read_create(req)
        if isinstance(request, CreateGroup):
            self._create_several(req, resp, request)
            return
        context = self._context
        answer = context.scheduler.call(contract.CREATE_VOLUME, request)
        if answer.refusal is not None:
            context.write_refusal(req, resp, answer.refusal)
            return
        volume = self._created.call(answer.volume_id)
        if volume is None:
            raise errors.NotFound(f"Volume {answer.volume_id} could not be found.")
        resp.status = falcon.HTTP_202
        resp.media = response_bodies.Volume(views.VolumeView.for_request(req, context.policy).changed(volume))

    def _read(self, volume_ids: Sequence[str]) -> list[volumes.VolumeDetails | None]:
        created = self._context.database.read(volumes.load, volume_ids)
        volumes_by_id = {volume.id: volume for volume in created}
        return [volumes_by_id.get(volume_id) for volume_id in volume_ids]

    def _create_several(self, req: Request, resp: falcon.Response, request: CreateGroup) -> None:
        context = self._context
        answer = context.scheduler.call(contract.CREATE_GROUP, request)
        if answer.refusal is not None:
            context.write_refusal(req, resp, answer.refusal)
            return
        created = context.database.read(volumes.load, [volume_answer.volume_id for volume_answer in answer.volumes])
        view = views.VolumeView.for_request(req, context.policy)
        resp.status = falcon.HTTP_202
        resp.media = response_bodies.MadeVolumes([view.changed(volume) for volume in created])

    @operation({200: response_bodies.VolumeSummaries}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List volumes with id, name and links."""
        page = self._page(req)
        resp.media = response_bodies.VolumeSummaries(
            volumes=[page.view.summary(volume) for volume in page.rows], volumes_links=page.links, count=page.count
        )

    @operation({200: response_bodies.VolumeDetails}, query=_QUERY, errors=(404,))
    def on_get_detail(self, req: Request, resp: falcon.Response) -> None:
        """List volumes with details."""
        page = self._page(req)
        resp.media = response_bodies.VolumeDetails(
            volumes=[page.view.detail(volume) for volume in page.rows], volumes_links=page.links, count=page.count
        )

    @operation({200: response_bodies.VolumesSummary}, query=_SUMMARY_QUERY, errors=(404,))
    def on_get_summary(self, req: Request, resp: falcon.Response) -> None:
        """Show the number and total size of volumes; since 3.36 also their metadata."""
        context = self._context
        context.policy.require(req.context.identity, policies.VOLUME_GET_ALL)
        if not req.at_least(microversions.VOLUME_SUMMARY):
            raise errors.NotFound("Volume summary could not be found.")
        query = self._query(req, _SUMMARY_QUERY.read(req))
        with context.database.reading() as session:
            count, size = volumes.totals(session, query)
            with_metadata = req.at_least(microversions.VOLUME_SUMMARY_METADATA)
            metadata = volumes.all_metadata(session, query) if with_metadata else UNSET
        resp.media = response_bodies.VolumesSummary(response_bodies.Totals(count, size, metadata))

    def _page(self, req: Request) -> _Page:
        context = self._context
        context.policy.require(req.context.identity, policies.VOLUME_GET_ALL)
        parameters = _QUERY.read(req)
        part, query = context.paginator.page(parameters), self._query(req, parameters)
        counted = req.at_least(microversions.VOLUME_LIST_COUNT) and list_query.boolean(parameters, "with_count")
        count: int | UnsetType = UNSET
        if part.marker is None and not counted:
            rows = context.database.read(volumes.page, query, part)
        else:
            with context.database.reading(snapshot=True) as session:
                rows = volumes.page(session, query, part)
                count = volumes.count(session, query) if counted else UNSET
        view = views.VolumeView.for_request(req, context.policy)
        return _Page(view, rows, context.paginator.links(req, part, rows), count)

    def _query(self, req: Request, parameters: Mapping[str, str]) -> volumes.Query:
        identity = req.context.identity
        all_projects = list_query.boolean(parameters, "all_tenants") and self._context.policy.allows(
            identity, policies.IS_ADMIN
        )
        filters = _QUERY.select_filters(parameters)
        if not req.at_least(microversions.VOLUME_LIST_GROUP):
            filters.pop("group_id", None)  # as in Cinder, which ignored it before
        if volumes.HOST_FILTERS & filters.keys():
            # Otherwise a user could find out hidden values by filtering.
            self._context.policy.require(identity, policies.VOLUME_HOST)
        return volumes.Query(project_id=None if all_projects else identity.project_id, filters=filters)


class Volume:
    """``/volumes/{volume_id}``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: response_bodies.Volume})
    def on_get(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Show a volume."""
        volume = self._context.authorized_volume(req, volume_id, policies.VOLUME_GET)
        resp.media = response_bodies.Volume(views.VolumeView.for_request(req, self._context.policy).detail(volume))

    @operation({200: response_bodies.Volume}, bodies=(volume_bodies.UpdateVolume,))
    def on_put(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Change the name, the description or the metadata of a volume."""
        context = self._context
        volume = self._context.authorized_volume(req, volume_id, policies.VOLUME_UPDATE)
        sent = context.bodies.read(req, volume_bodies.UpdateVolume).volume
        changes = volumes.Changes(name=sent.name, description=sent.description, metadata=sent.metadata)
        volume = context.database.run(volumes.update, volume.id, volume.project_id, changes)
        resp.media = response_bodies.Volume(views.VolumeView.for_request(req, context.policy).changed(volume))

    @operation({202: None}, query=_DELETE_QUERY)
    def on_delete(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Delete a volume. It disappears once the storage has confirmed the deletion.

        ``force`` is for administrators and makes no difference: no status requires it, and an operation in progress is
        never interrupted. ``cascade`` has no effect, as volumes have no snapshots.
        """
        parameters = _DELETE_QUERY.read(req)
        force = req.at_least(microversions.DELETE_FORCE) and list_query.boolean(parameters, "force")
        volume = self._context.authorized_volume(
            req, volume_id, policies.VOLUME_FORCE_DELETE if force else policies.VOLUME_DELETE
        )
        groups.require_free(volume, "deleted")
        request = DeleteVolume(request_id=req.context.identity.request_id, volume_id=volume.id)
        try:
            self._context.scheduler.call(contract.DELETE_VOLUME, request)
        except errors.Conflict as error:
            if (cause := self._waits_for(req, volume.id)) is None:
                raise
            raise errors.Conflict(f"{error.message}; {cause}") from None
        resp.status = falcon.HTTP_202

    def _waits_for(self, req: Request, volume_id: str) -> str | None:
        """Return the backend that an operation on the volume waits for in vain, None if there is none."""
        context = self._context
        with context.database.reading() as session:
            text = volume_figures.first_wait(volume_figures.claims_of(session, volume_id, context.down_time))
        if text is None:
            return None
        if context.policy.allows(req.context.identity, policies.FAILURE_DETAILS):
            return f"its operation waits for {text}"
        return "its operation waits for storage that does not answer at present; an administrator can see which"


class Metadata:
    """``/volumes/{volume_id}/metadata``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: response_bodies.Metadata})
    def on_get(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Show the metadata of a volume."""
        resp.media = response_bodies.Metadata(
            self._context.authorized_volume(req, volume_id, policies.METADATA_GET).user_metadata
        )

    @operation({200: response_bodies.Metadata}, bodies=(volume_bodies.SetMetadata,))
    def on_post(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Set some metadata items and keep the others."""
        self._set(req, resp, volume_id, policies.METADATA_CREATE, replace=False)

    @operation({200: response_bodies.Metadata}, bodies=(volume_bodies.SetMetadata,))
    def on_put(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Replace all metadata items."""
        self._set(req, resp, volume_id, policies.METADATA_UPDATE, replace=True)

    def _set(self, req: Request, resp: falcon.Response, volume_id: str, rule: str, *, replace: bool) -> None:
        context = self._context
        volume = context.authorized_volume(req, volume_id, rule)
        items = context.bodies.read(req, volume_bodies.SetMetadata).metadata
        set_to = context.database.run(volumes.set_metadata, volume.id, volume.project_id, items, replace=replace)
        resp.media = response_bodies.Metadata(set_to)


class MetadataItem:
    """``/volumes/{volume_id}/metadata/{key}``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: response_bodies.MetadataItem})
    def on_get(self, req: Request, resp: falcon.Response, volume_id: str, key: str) -> None:
        """Show a metadata item."""
        metadata = self._context.authorized_volume(req, volume_id, policies.METADATA_GET).user_metadata
        if key not in metadata:
            raise errors.NotFound(volumes.no_metadata(volume_id, key))
        resp.media = response_bodies.MetadataItem({key: metadata[key]})

    @operation({200: response_bodies.MetadataItem}, bodies=(volume_bodies.SetMetadataItem,))
    def on_put(self, req: Request, resp: falcon.Response, volume_id: str, key: str) -> None:
        """Set a metadata item. The body has the same key as the path."""
        context = self._context
        volume = context.authorized_volume(req, volume_id, policies.METADATA_UPDATE)
        item = context.bodies.read(req, volume_bodies.SetMetadataItem).meta
        if list(item) != [key]:
            raise errors.InvalidInput(f"the body names {', '.join(map(repr, item))}: expected {key!r} alone")
        context.database.run(volumes.set_metadata, volume.id, volume.project_id, item, replace=False)
        resp.media = response_bodies.MetadataItem(item)

    @operation({200: None})
    def on_delete(self, req: Request, resp: falcon.Response, volume_id: str, key: str) -> None:
        """Delete a metadata item."""
        volume = self._context.authorized_volume(req, volume_id, policies.METADATA_DELETE)
        self._context.database.remove(volumes.unset_metadata, volume.id, volume.project_id, key)


class Encryption:
    """``/volumes/{volume_id}/encryption``: no volume is encrypted."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: dict[str, str | None]})
    def on_get(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Return that the volume has no key."""
        self._context.authorized_volume(req, volume_id, policies.VOLUME_ENCRYPTION)
        resp.media = {"encryption_key_id": None}
