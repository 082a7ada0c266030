# SPDX-License-Identifier: Apache-2.0
"""The conversion of rows and RPC messages into response bodies."""

import datetime
from dataclasses import dataclass
from urllib import parse

from msgspec import UNSET, UnsetType

from tonnage.api.auth import policies
from tonnage.api.auth.enforcement import Policy
from tonnage.api.http import microversions
from tonnage.api.http.http_request import Request
from tonnage.api.schemas import group_bodies, response_bodies, service_bodies, type_bodies
from tonnage.capacity.explanation import Explanation
from tonnage.ledger import models
from tonnage.ledger.catalog import groups, user_messages
from tonnage.ledger.catalog.managed_volumes import Manageable
from tonnage.ledger.catalog.refusals import RefusalCount
from tonnage.ledger.catalog.volume_decisions import VolumeDecisions
from tonnage.ledger.catalog.volumes import VolumeDetails
from tonnage.ledger.inventory.drains import DrainProgress
from tonnage.ledger.inventory.volume_figures import ClaimFigures
from tonnage.ledger.locks import backend_notices, heartbeats


def links(req: Request, collection: str, item_id: str) -> list[response_bodies.Link]:
    """Return the links of one item."""
    project = parse.quote(req.context.identity.project_id or "", safe="")
    return [
        response_bodies.Link("self", f"{req.prefix}/v3/{project}/{collection}/{item_id}"),
        response_bodies.Link("bookmark", f"{req.prefix}/{project}/{collection}/{item_id}"),
    ]


def time(moment: datetime.datetime | None) -> str | None:
    """Return a time in UTC as text, with microseconds and without a time zone."""
    return None if moment is None else moment.isoformat(timespec="microseconds")


def reason(text: str | None, *, details: bool) -> str | None:
    """Return the reason of a failure; without ``details``, a sentence that names no hosts and no pools."""
    return text if details or text is None else "The operation has failed. An administrator can see the reason."


@dataclass(frozen=True, slots=True)
class VolumeView:
    """Converts volumes for one user. The policy is checked once for all volumes."""

    req: Request
    host: bool
    owner: bool
    migration: bool
    reasons: bool
    admin: bool

    @classmethod
    def for_request(cls, req: Request, policy: Policy) -> "VolumeView":
        """Return the view for the user of a request."""
        identity = req.context.identity
        return cls(
            req,
            host=policy.allows(identity, policies.VOLUME_HOST),
            owner=policy.allows(identity, policies.VOLUME_TENANT),
            migration=policy.allows(identity, policies.VOLUME_MIGRATION),
            reasons=policy.allows(identity, policies.FAILURE_DETAILS),
            admin=policy.allows(identity, policies.IS_ADMIN),
        )

    def summary(self, volume: VolumeDetails) -> response_bodies.VolumeSummary:
        """Return a volume without details."""
        return response_bodies.VolumeSummary(
            id=volume.id, name=volume.name, links=links(self.req, "volumes", volume.id)
        )

    def detail(self, volume: VolumeDetails) -> response_bodies.VolumeDetail:
        """Return a volume with the keys that the user may see."""
        view = self.changed(volume)
        if self.owner:
            view.project_id = volume.project_id
        if self.host:
            view.host = volume.pool
        if self.migration:
            view.migstat, view.name_id = volume.migration_status, None
        return view

    def changed(self, volume: VolumeDetails) -> response_bodies.VolumeDetail:
        """Return a volume that a request has created or changed: as in Cinder, without owner, host and migration."""
        view = self.managed(volume)
        # The keys of later microversions.
        if self.req.at_least(microversions.GROUPS):
            view.group_id = volume.group_id
        if self.host and self.req.at_least(21):
            view.provider_id = None
        if self.req.at_least(48):
            view.shared_targets, view.service_uuid = False, None
        if self.host and self.req.at_least(61):
            view.cluster_name = None
        if self.req.at_least(63):
            view.volume_type_id = volume.volume_type_id
        if self.req.at_least(65):
            view.consumes_quota = True
        if self.req.at_least(microversions.OWN_KEYS):
            view.status_reason = reason(volume.status_reason, details=self.reasons)
        return view

    def managed(self, volume: VolumeDetails) -> response_bodies.VolumeDetail:
        """Return a volume that is managed from now on: as in Cinder, with the keys of 3.0 in all microversions."""
        # In Cinder's microversions a status that its clients wait for when they manage a volume.
        in_error = volume.status == "error_managing" and not self.req.at_least(microversions.OWN_KEYS)
        view = response_bodies.VolumeDetail(
            id=volume.id,
            name=volume.name,
            description=volume.description,
            status="error" if in_error else volume.status,
            size=volume.size_gb,
            availability_zone=volume.availability_zone,
            created_at=time(volume.created_at),
            updated_at=time(volume.updated_at),
            volume_type=volume.volume_type,
            metadata=volume.user_metadata,
            user_id=volume.user_id,
            links=links(self.req, "volumes", volume.id),
            source_volid=volume.source_volume_id,
        )
        if self.admin:
            view.migration_status = volume.migration_status
        return view


def group(req: Request, shown: groups.GroupView, *, volumes: bool, owner: bool) -> group_bodies.GroupDetail:
    """Return a group, with its volume ids if ``volumes`` and its project if ``owner``, by the microversion."""
    row = shown.row
    view = group_bodies.GroupDetail(
        id=row.id,
        name=row.name,
        status=shown.status,
        description=row.description,
        availability_zone=shown.availability_zone,
        created_at=time(row.created_at),
        group_type=row.group_type_id,
        volume_types=[type_row.id for type_row in row.volume_types],
    )
    if req.at_least(microversions.GROUP_SNAPSHOTS):
        view.group_snapshot_id, view.source_group_id = None, None
    if volumes and req.at_least(microversions.GROUP_VOLUMES):
        view.volumes = list(shown.volume_ids)
    if req.at_least(microversions.GROUP_REPLICATION):
        view.replication_status = "disabled"
    if owner and req.at_least(microversions.GROUP_PROJECT):
        view.project_id = row.project_id
    return view


def group_type(row: models.GroupType, *, specs: bool) -> group_bodies.GroupTypeDetail:
    """Return a group type, with its specs if ``specs`` is true."""
    return group_bodies.GroupTypeDetail(
        id=row.id,
        name=row.name,
        description=row.description,
        is_public=row.is_public,
        group_specs=row.specs if specs else UNSET,
    )


def qos_specs(specs: models.QosSpecs) -> type_bodies.QosDetail:
    """Return QoS specs."""
    return type_bodies.QosDetail(id=specs.id, name=specs.name, consumer=specs.consumer, specs=specs.specs)


def volume_type(
    row: models.VolumeType, *, extra_specs: bool, qos_specs_id: str | UnsetType | None = UNSET
) -> type_bodies.TypeDetail:
    """Return a volume type, with its extra specs if ``extra_specs``; ``qos_specs_id`` is UNSET if it is hidden."""
    return type_bodies.TypeDetail(
        id=row.id,
        name=row.name,
        description=row.description,
        is_public=row.is_public,
        access=row.is_public,
        qos_specs_id=qos_specs_id,
        extra_specs=row.extra_specs if extra_specs else UNSET,
    )


@dataclass(frozen=True, slots=True)
class ServiceView:
    """Converts schedulers and backends.

    One is down after ``down_time`` seconds of silence. With ``cinder_names`` binaries have their names in Cinder.
    """

    down_time: int
    cinder_names: bool

    def service(
        self,
        row: heartbeats.ServiceRow,
        req: Request,
        drain: DrainProgress | None = None,
        *,
        is_reported_down: bool = False,
    ) -> service_bodies.Service:
        """Return a scheduler or a backend, with the progress of its drain if it is draining.

        ``is_reported_down`` is whether its driver reports that its storage is down.
        """
        state = "up" if row.up(self.down_time) else "down"
        view = service_bodies.Service(
            binary=self._binary(row),
            host=row.host,
            zone=row.availability_zone,
            status="enabled" if row.enabled else "disabled",
            state=state,
            updated_at=time(row.last_seen_at),
            disabled_reason=row.disabled_reason,
        )
        if req.at_least(microversions.CLUSTERS):
            view.cluster = None
        if row.binary == heartbeats.AGENT:
            view.replication_status, view.active_backend_id, view.frozen = "disabled", None, False
            if req.at_least(microversions.BACKEND_STATE):
                view.backend_state = "down" if is_reported_down else state
            if req.at_least(microversions.OWN_KEYS):
                view.draining, view.drain = row.draining, None if drain is None else _drain(drain)
                view.state_reason = backend_notices.state_reason(
                    row.silence, row.notice, self.down_time, is_reported_down=is_reported_down
                )
        return view

    def host(self, row: heartbeats.ServiceRow) -> service_bodies.HostDetail:
        """Return a scheduler or a backend in the format of ``/os-hosts``."""
        return service_bodies.HostDetail(
            host_name=row.host,
            service=self._binary(row),
            zone=row.availability_zone,
            status="available" if row.up(self.down_time) else "unavailable",
            state="enabled" if row.enabled else "disabled",
            last_update=time(row.last_seen_at),
        )

    def _binary(self, row: heartbeats.ServiceRow) -> str:
        return service_bodies.CINDER_NAMES[row.binary] if self.cinder_names else row.binary


def _drain(drain: DrainProgress) -> service_bodies.Drain:
    return service_bodies.Drain(
        volumes=drain.volumes, moving=drain.moving, cannot_move=drain.stuck, reasons=list(drain.reasons)
    )


def usage(host: str, project: str, count: int, size_gb: int) -> service_bodies.Usage:
    """Return the number and total size in GiB of a project's volumes on a backend."""
    return service_bodies.Usage(host=host, project=project, volume_count=str(count), total_volume_gb=str(size_gb))


def manageable(volume: Manageable, *, detail: bool) -> response_bodies.ManageableDetail:
    """Return a manageable volume."""
    view = response_bodies.ManageableDetail(reference=response_bodies.Reference(volume.reference), size=volume.size_gb)
    if detail:
        view.reason_not_safe, view.cinder_id, view.extra_info = None, None, volume.pool
    return view


def refusal(row: models.Refusal) -> response_bodies.RecordedRefusal:
    """Return a recorded refusal."""
    fields = {name: getattr(row, name) for name in response_bodies.RecordedRefusal.__struct_fields__}
    return response_bodies.RecordedRefusal(**{**fields, "refused_at": time(row.refused_at)})


def refusal_count(row: RefusalCount) -> response_bodies.RefusalCount:
    """Return a number of refusals."""
    return response_bodies.RefusalCount(
        day=row.day,
        verb=row.verb,
        filter=row.filter,
        code=row.code,
        refusals=row.number,
        last_at=time(row.last_at),
    )


def volume_decisions(
    decisions: VolumeDecisions, explanation: Explanation | None, unexplained: str | None
) -> response_bodies.VolumeDecisions:
    """Return the decisions on a volume, with the explanation of the same request now or the reason for its lack."""
    return response_bodies.VolumeDecisions(
        volume_id=decisions.id,
        name=decisions.name,
        project_id=decisions.project_id,
        status=decisions.status,
        status_reason=decisions.status_reason,
        size_gb=decisions.size_gb,
        volume_type=decisions.volume_type,
        pool=decisions.pool,
        reason=decisions.reason,
        waits_for=decisions.waits_for,
        drain=decisions.drain,
        provisioning=decisions.provisioning,
        request_id=decisions.request_id,
        requested_zone=decisions.requested_zone,
        scheduler_hints=None if decisions.hints is None else dict(decisions.hints),
        attempted_pools=list(decisions.attempted_pools),
        created_at=time(decisions.created_at),
        claims=[_claim(row) for row in decisions.claims],
        refusals=[refusal(row) for row in decisions.refusals],
        explanation=explanation,
        unexplained=unexplained,
    )


def _claim(row: ClaimFigures) -> response_bodies.ClaimOfVolume:
    return response_bodies.ClaimOfVolume(
        id=row.id,
        verb=row.verb,
        state=row.state,
        pool=row.pool,
        size_gb=row.size_gb,
        physical_gb=row.physical_gb,
        request_id=row.request_id,
        contained=row.contained,
        created_at=time(row.created_at),
        waits_for=row.waits_for,
    )


def message(req: Request, row: models.Message, *, details: bool) -> response_bodies.Message:
    """Return a user message, with the names of hosts and pools if ``details``."""
    return response_bodies.Message(
        id=row.id,
        event_id=row.event,
        user_message=reason(row.text, details=details) or "",
        message_level=row.level,
        created_at=time(row.created_at),
        guaranteed_until=time(row.created_at + datetime.timedelta(days=user_messages.KEPT_DAYS)),
        request_id=row.request_id,
        resource_type=row.resource_type,
        resource_uuid=row.resource_id,
        links=links(req, "messages", row.id),
    )
