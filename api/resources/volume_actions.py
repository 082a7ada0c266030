# SPDX-License-Identifier: Apache-2.0
"""Actions on volumes: extend, retype, migrate, unmanage, force-delete and reset the status."""

from collections.abc import Callable, Mapping
from typing import Any

import falcon

from tonnage.api.auth import policies
from tonnage.api.context import host_references
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.context.volume_requests import RequestReader
from tonnage.api.http import body, faults
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.schemas import volume_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import groups, volumes
from tonnage.rpc import contract
from tonnage.rpc.messages import (
    DeleteVolume,
    ExtendVolume,
    MigrateVolume,
    MigrationPolicy,
    RetypeVolume,
    UnmanageVolume,
)


class Actions:
    """``/volumes/{volume_id}/action``. The only key of the body is the action, its value the arguments."""

    def __init__(self, context: ResourceContext, reader: RequestReader) -> None:
        self._context, self._reader = context, reader
        self._actions: Mapping[str, Callable[[Request, falcon.Response, str, Any], None]] = {
            "os-extend": self._extend,
            "os-force_delete": self._force_delete,
            "os-migrate_volume": self._migrate,
            "os-reset_status": self._reset_status,
            "os-retype": self._retype,
            "os-unmanage": self._unmanage,
        }

    @operation({202: None}, actions=volume_bodies.VOLUME_ACTIONS, errors=(409, 501))
    def on_post(self, req: Request, resp: falcon.Response, volume_id: str) -> None:
        """Perform an action on a volume. The only key of the body is the name of the action."""
        name, arguments = body.only_key(self._context.bodies.decode(req), volume_bodies.VOLUME_ACTIONS)
        if name in volume_bodies.UNSUPPORTED_ACTIONS:
            self._context.authorized_volume(req, volume_id, policies.VOLUME_UPDATE)
            feature = volume_bodies.UNSUPPORTED_ACTIONS[name]
            raise faults.NotSupported(f"The action {name} is not supported, as Tonnage has no {feature}.")
        resp.status = falcon.HTTP_202
        self._actions[name](req, resp, volume_id, arguments)

    def _extend(self, req: Request, resp: falcon.Response, volume_id: str, arguments: Any) -> None:
        volume = self._context.authorized_volume(req, volume_id, policies.VOLUME_EXTEND)
        size = body.convert(arguments, volume_bodies.Extend).new_size
        request = ExtendVolume(request_id=_id(req), volume_id=volume.id, new_size_gb=int(size))
        answer = self._context.scheduler.call(contract.EXTEND_VOLUME, request)
        if answer.refusal is not None:
            self._context.write_refusal(req, resp, answer.refusal)

    def _force_delete(self, req: Request, resp: falcon.Response, volume_id: str, arguments: Any) -> None:
        """Delete a volume. An operation in progress is not interrupted."""
        volume = self._context.authorized_volume(req, volume_id, policies.VOLUME_FORCE_DELETE_ACTION)
        groups.require_free(volume, "deleted")
        self._context.scheduler.call(contract.DELETE_VOLUME, DeleteVolume(request_id=_id(req), volume_id=volume.id))

    def _retype(self, req: Request, resp: falcon.Response, volume_id: str, arguments: Any) -> None:
        """Change the type of a volume, in its pool or, if the migration policy allows it, in another one."""
        volume = self._context.authorized_volume(req, volume_id, policies.VOLUME_RETYPE)
        sent = body.convert(arguments, volume_bodies.Retype)
        type_id = self._reader.type_id(sent.new_type, req.context.identity)
        if type_id == volume.volume_type_id:
            raise errors.InvalidInput(f"new_type is {sent.new_type!r}: volume {volume.id} has that type already")
        request = RetypeVolume(
            request_id=_id(req),
            volume_id=volume.id,
            volume_type=type_id,
            migration_policy=MigrationPolicy(sent.migration_policy or MigrationPolicy.NEVER),
        )
        answer = self._context.scheduler.call(contract.RETYPE_VOLUME, request)
        if answer.refusal is not None:
            self._context.write_refusal(req, resp, answer.refusal)

    def _migrate(self, req: Request, resp: falcon.Response, volume_id: str, arguments: Any) -> None:
        """Migrate a volume to a backend or a pool or, without a host, to any other pool."""
        volume = self._context.authorized_volume(req, volume_id, policies.VOLUME_MIGRATE)
        host = body.convert(arguments, volume_bodies.Migrate).host
        if host is not None:
            self._check_destination(host, volume)
        request = MigrateVolume(request_id=_id(req), volume_id=volume.id, destination=host)
        answer = self._context.scheduler.call(contract.MIGRATE_VOLUME, request)
        if answer.refusal is not None:
            self._context.write_refusal(req, resp, answer.refusal)

    def _check_destination(self, host: str, volume: volumes.VolumeDetails) -> None:
        with self._context.database.reading() as session:
            destination = host_references.find(session, host)
        pool = volume.pool
        if pool is not None and (destination.pool == pool or destination.pools == (pool,)):
            raise errors.InvalidInput(f"host is {host!r}: volume {volume.id} is there already, name another one")

    def _unmanage(self, req: Request, resp: falcon.Response, volume_id: str, arguments: Any) -> None:
        """Unmanage a volume and leave it on the storage."""
        volume = self._context.authorized_volume(req, volume_id, policies.VOLUME_UNMANAGE)
        groups.require_free(volume, "unmanaged")
        self._context.scheduler.call(contract.UNMANAGE_VOLUME, UnmanageVolume(request_id=_id(req), volume_id=volume.id))

    def _reset_status(self, req: Request, resp: falcon.Response, volume_id: str, arguments: Any) -> None:
        volume = self._context.authorized_volume(req, volume_id, policies.VOLUME_RESET_STATUS)
        sent = body.convert(arguments, volume_bodies.ResetStatus)
        if sent.status:
            self._context.database.run(volumes.reset_status, volume.id, sent.status.lower())
        if sent.migration_status:
            self._context.database.run(volumes.reset_migration_status, volume.id)


def _id(req: Request) -> str:
    return str(req.context.identity.request_id)
