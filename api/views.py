# SPDX-License-Identifier: Apache-2.0
"""What is kept, as clients are shown it. The keys are those of the Block Storage API v3."""

import datetime
from dataclasses import dataclass
from typing import Any

from tonnage.api import policies
from tonnage.api.http import Request
from tonnage.ledger import models
from tonnage.ledger import services
from tonnage.ledger.manages import Manageable
from tonnage.rpc import messages as rpc_messages

View = dict[str, Any]


def links(req: Request, collection: str, item_id: str) -> list[View]:
    """Return the links of one item."""
    project = req.context.identity.project_id
    return [
        {"rel": "self", "href": f"{req.prefix}/v3/{project}/{collection}/{item_id}"},
        {"rel": "bookmark", "href": f"{req.prefix}/{project}/{collection}/{item_id}"},
    ]


def time(moment: datetime.datetime | None) -> str | None:
    """Return a time, UTC, with microseconds and without a zone."""
    return None if moment is None else moment.isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class VolumeView:
    """Shows volumes to one asker: what of them the policy lets him see is asked once for all of them."""

    req: Request
    host: bool
    owner: bool
    migration: bool
    admin: bool

    @classmethod
    def for_request(cls, req: Request, policy: policies.Policy) -> "VolumeView":
        """Return the view for whoever sent the request."""
        identity = req.context.identity
        return cls(
            req,
            host=policy.allows(identity, policies.VOLUME_HOST),
            owner=policy.allows(identity, policies.VOLUME_TENANT),
            migration=policy.allows(identity, policies.VOLUME_MIGRATION),
            admin=policy.allows(identity, policies.IS_ADMIN),
        )

    def summary(self, volume: models.Volume) -> View:
        """Return id, name and links."""
        return {"id": volume.id, "name": volume.name, "links": links(self.req, "volumes", volume.id)}

    def detail(self, volume: models.Volume) -> View:
        """Return everything. ``status_reason`` is ours: why a volume is in error, or what its last operation met."""
        view: View = {
            "id": volume.id,
            "name": volume.name,
            "description": volume.description,
            "status": volume.status,
            "status_reason": volume.status_reason,
            "size": volume.size_gb,
            "availability_zone": volume.availability_zone,
            "created_at": time(volume.created_at),
            "updated_at": time(volume.updated_at),
            "volume_type": None if volume.volume_type is None else volume.volume_type.name,
            "metadata": volume.user_metadata,
            "user_id": volume.user_id,
            "links": links(self.req, "volumes", volume.id),
            "attachments": [],
            "bootable": "false",
            "encrypted": False,
            "multiattach": False,
            "snapshot_id": None,
            "source_volid": volume.source_volume_id,
            "consistencygroup_id": None,
            "replication_status": None,
        }
        if self.admin:
            view["migration_status"] = volume.migration_status
        if self.owner:
            view["os-vol-tenant-attr:tenant_id"] = volume.project_id
        if self.host:
            view["os-vol-host-attr:host"] = None if volume.pool is None else volume.pool.name
        if self.migration:
            view["os-vol-mig-status-attr:migstat"] = volume.migration_status
            view["os-vol-mig-status-attr:name_id"] = None
        return view | self._later(volume)

    def _later(self, volume: models.Volume) -> View:
        """Return what later microversions added."""
        added: list[tuple[int, View]] = [
            (13, {"group_id": None}),
            (48, {"shared_targets": False, "service_uuid": None}),
            (63, {"volume_type_id": volume.volume_type_id}),
            (65, {"consumes_quota": True}),
        ]
        if self.host:
            added += [(21, {"provider_id": None}), (61, {"cluster_name": None})]
        view: View = {}
        for minor, keys in added:
            if self.req.at_least(minor):
                view |= keys
        return view


def volume_type(kind: models.VolumeType, *, extra_specs: bool) -> View:
    """Return a volume type, with its extra specs where the asker may see them."""
    view: View = {
        "id": kind.id,
        "name": kind.name,
        "description": kind.description,
        "is_public": kind.is_public,
        "os-volume-type-access:is_public": kind.is_public,
        "qos_specs_id": None,
    }
    if extra_specs:
        view["extra_specs"] = kind.extra_specs
    return view


def pool(shown: rpc_messages.PoolView, *, detail: bool, factors: bool) -> View:
    """Return a pool, with all that is known of it and, beside that, its capacity factors."""
    view: View = {"name": shown.name}
    if detail:
        view["capabilities"] = shown.capabilities
        if factors:
            view["capacity_factors"] = shown.capacity_factors
    return view


def service(row: services.ServiceRow, down_time: int, *, backend_state: bool) -> View:
    """Return a scheduler or a backend. Silent for more than ``down_time`` seconds is down. ``draining`` is ours."""
    state = "up" if row.up(down_time) else "down"
    view: View = {
        "binary": row.binary,
        "host": row.host,
        "zone": row.availability_zone,
        "status": "enabled" if row.enabled else "disabled",
        "state": state,
        "updated_at": time(row.last_seen_at),
        "disabled_reason": row.disabled_reason,
    }
    if row.binary == services.AGENT:
        view["draining"] = row.draining
        if backend_state:
            view["backend_state"] = state
    return view


def manageable(found: Manageable, *, detail: bool) -> View:
    """Return something on the storage that can be taken over; ``extra_info`` tells from which pool."""
    view: View = {"reference": {"source-name": found.reference}, "size": found.size_gb, "safe_to_manage": True}
    if detail:
        view |= {"reason_not_safe": None, "cinder_id": None, "extra_info": found.pool}
    return view


def message(req: Request, told: models.Message) -> View:
    """Return a user message. They are kept until they are deleted."""
    return {
        "id": told.id,
        "event_id": told.event,
        "user_message": told.text,
        "message_level": told.level,
        "created_at": time(told.created_at),
        "guaranteed_until": None,
        "request_id": told.request_id,
        "resource_type": told.resource_type,
        "resource_uuid": told.resource_id,
        "links": links(req, "messages", told.id),
    }
