# SPDX-License-Identifier: Apache-2.0
"""``/volumes/{volume_id}/metadata``: what users note about their volumes."""

import falcon

from tonnage.api.auth import policies
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.api.schemas import response_bodies, volume_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import volumes


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
