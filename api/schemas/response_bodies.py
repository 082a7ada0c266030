# SPDX-License-Identifier: Apache-2.0
"""Response bodies that are not in a more specific module.

The keys are those of the Block Storage API v3, and additions of Tonnage. A key with the value UNSET is missing in the
response: a later microversion added it, or the user may not see it. Times are in UTC, sizes in GiB.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tonnage.capacity.decision import Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.rpc.messages import SimulationResult


class Fault(Struct):
    """An error. ``refusal``, since 3.72, has the reasons, as data, if no pool accepts a volume.

    ``largest_size_gb``, since 3.72, is the size that would be accepted, if only the size is the reason.
    """

    code: int
    message: str
    retryAfter: str | UnsetType = UNSET  # noqa: N815  (the name on the wire)
    refusal: Refusal | UnsetType = UNSET
    largest_size_gb: int | UnsetType = UNSET


class Link(Struct):
    """A link to an object or a page."""

    rel: str
    href: str


class VolumeSummary(Struct, kw_only=True):
    """A volume without details."""

    id: str
    name: str | None
    links: list[Link]


class VolumeDetail(VolumeSummary, kw_only=True):
    """A volume. ``status_reason``, since 3.72, is the reason of its error or of a failed operation."""

    description: str | None
    status: str
    size: int
    availability_zone: str | None
    created_at: str | None
    updated_at: str | None
    volume_type: str | None
    metadata: dict[str, str]
    user_id: str
    attachments: list[dict[str, Any]] = []
    bootable: str = "false"
    encrypted: bool = False
    multiattach: bool = False
    snapshot_id: str | None = None
    source_volid: str | None
    consistencygroup_id: str | None = None
    replication_status: str | None = None
    migration_status: str | UnsetType | None = UNSET
    project_id: str | UnsetType = msgspec.field(default=UNSET, name="os-vol-tenant-attr:tenant_id")
    host: str | UnsetType | None = msgspec.field(default=UNSET, name="os-vol-host-attr:host")
    migstat: str | UnsetType | None = msgspec.field(default=UNSET, name="os-vol-mig-status-attr:migstat")
    name_id: str | UnsetType | None = msgspec.field(default=UNSET, name="os-vol-mig-status-attr:name_id")
    group_id: str | UnsetType | None = UNSET
    provider_id: str | UnsetType | None = UNSET
    shared_targets: bool | UnsetType | None = UNSET
    service_uuid: str | UnsetType | None = UNSET
    cluster_name: str | UnsetType | None = UNSET
    volume_type_id: str | UnsetType | None = UNSET
    consumes_quota: bool | UnsetType = UNSET
    status_reason: str | UnsetType | None = UNSET


class Volume(Struct):
    """One volume."""

    volume: VolumeDetail


class MadeVolumes(Struct):
    """The created volumes of one request."""

    volumes: list[VolumeDetail]


class _Page(Struct, kw_only=True):
    """A page of volumes. ``count`` is the number of volumes on all pages."""

    volumes_links: list[Link] | UnsetType = UNSET
    count: int | UnsetType = UNSET


class VolumeSummaries(_Page, kw_only=True):
    """A page of volumes without details."""

    volumes: list[VolumeSummary]


class VolumeDetails(_Page, kw_only=True):
    """A page of volumes."""

    volumes: list[VolumeDetail]


class Totals(Struct):
    """The number of volumes and their total size."""

    total_count: int
    total_size: int
    metadata: dict[str, list[str]] | UnsetType = UNSET


class VolumesSummary(Struct):
    """A summary of volumes."""

    volume_summary: Totals = msgspec.field(name="volume-summary")


class Metadata(Struct):
    """The metadata of a volume."""

    metadata: dict[str, str]


class MetadataItem(Struct):
    """One item of the metadata."""

    meta: dict[str, str]


class Pool(Struct):
    """A pool with its capabilities; since 3.72 with Tonnage's own capabilities and capacity factors."""

    name: str
    capabilities: dict[str, Any] | UnsetType = UNSET
    capacity_factors: list[dict[str, Any]] | UnsetType = UNSET


class Pools(Struct):
    """The pools."""

    pools: list[Pool]


class Explained(Struct):
    """The explanation of the decision about a volume, or about each of several volumes."""

    explanation: Explanation | UnsetType = UNSET
    explanations: list[Explanation] | UnsetType = UNSET


class RecordedRefusal(Struct, kw_only=True):
    """A refused request. ``filter`` and ``code`` are the reason of the nearest pool, ``pool``, if there is one.

    ``volume_id`` is the requested volume, or the first one of a group. ``largest_size_gb`` is the size that would have
    been accepted, null if the size was not the reason. ``request_body`` is that of a request for one new volume
    that has no group; null for others.
    """

    id: int
    refused_at: str | None
    request_id: str
    volume_id: str
    project_id: str
    verb: str
    request: str
    filter: str
    code: str
    pool: str | None
    largest_size_gb: int | None
    message: str
    request_body: dict[str, Any] | None


class RefusalCount(Struct, kw_only=True):
    """The number of refusals for one reason on one day, in UTC, and the time of the last one."""

    day: str
    verb: str
    filter: str
    code: str
    refusals: int
    last_at: str | None


class Refusals(Struct):
    """Recorded refusals, the newest first, or with ``summary`` their numbers."""

    refusals: list[RecordedRefusal] | UnsetType = UNSET
    refusal_counts: list[RefusalCount] | UnsetType = UNSET


class LedgerRows(Struct):
    """The rows of an overview of the ledger, with the fields of its class. Times are in UTC, capacities in GiB."""

    rows: list[dict[str, Any]]


class ClaimOfVolume(Struct, kw_only=True):
    """A claim of a volume. It is in flight until a report contains it (``contained``).

    ``waits_for`` names the backend that has not answered it and is down or in doubt, null otherwise.
    """

    id: str
    verb: str
    state: str
    pool: str
    size_gb: int
    physical_gb: int
    request_id: str
    contained: bool
    created_at: str | None
    waits_for: str | None


class VolumeDecisions(Struct, kw_only=True):
    """The request for a volume, its claims and refusals, and the explanation of the same request now.

    ``reason`` is one sentence. A refused request has only its refusals. ``explanation`` is null if
    the request cannot be explained, for the reason in ``unexplained``. ``waits_for`` names the backend that the pending
    operation waits for, if that is down or in doubt, with the ways out. ``drain`` tells whether the volume can leave
    its backend, if that is draining.
    """

    volume_id: str
    name: str | None
    project_id: str
    status: str | None
    status_reason: str | None
    size_gb: int | None
    volume_type: str | None
    pool: str | None
    reason: str
    waits_for: str | None
    drain: str | None
    provisioning: str | None
    request_id: str
    requested_zone: str | None
    scheduler_hints: dict[str, Any] | None
    attempted_pools: list[str]
    created_at: str | None
    claims: list[ClaimOfVolume]
    refusals: list[RecordedRefusal]
    explanation: Explanation | None
    unexplained: str | None


class Why(Struct):
    """The decisions on a volume."""

    why: VolumeDecisions


class Outlooks(Struct):
    """The simulated decisions about requests, one after another."""

    outlooks: list[SimulationResult]


class Reference(Struct):
    """The name of a volume on its storage."""

    source_name: str = msgspec.field(name="source-name")


class ManageableDetail(Struct, kw_only=True):
    """A manageable volume. ``extra_info`` is its pool."""

    reference: Reference
    size: int
    safe_to_manage: bool = True
    reason_not_safe: str | UnsetType | None = UNSET
    cinder_id: str | UnsetType | None = UNSET
    extra_info: str | UnsetType = UNSET


class ManageableVolumes(Struct):
    """A page of manageable volumes."""

    manageable: list[ManageableDetail] = msgspec.field(name="manageable-volumes")


class Message(Struct, kw_only=True):
    """The reason why an accepted operation failed. It is kept until ``guaranteed_until`` unless a user deletes it."""

    id: str
    event_id: str
    user_message: str
    message_level: str
    created_at: str | None
    guaranteed_until: str | None
    request_id: str | None
    resource_type: str | None
    resource_uuid: str | None
    links: list[Link]


class OneMessage(Struct):
    """One user message."""

    message: Message


class Messages(Struct):
    """A page of user messages."""

    messages: list[Message]
    messages_links: list[Link] | UnsetType = UNSET


class Extension(Struct):
    """An extension of Cinder's API."""

    alias: str
    name: str
    description: str
    updated: str = "2026-11-01T00:00:00Z"
    links: list[Link] = []


class Extensions(Struct):
    """The supported extensions."""

    extensions: list[Extension]


class ResourceFilter(Struct):
    """The filters of the list of a resource."""

    resource: str
    filters: list[str]


class ResourceFilters(Struct):
    """The filters of lists."""

    resource_filters: list[ResourceFilter]


class Health(Struct):
    """Whether volumes can be created, with the reasons if not."""

    healthy: bool
    reasons: list[str]


class MediaType(Struct):
    """The media type of bodies."""

    base: str
    type: str


class Version(Struct):
    """A version of the API with its microversions."""

    id: str
    status: str
    version: str
    min_version: str
    updated: str
    links: list[Link]
    media_types: list[MediaType] = msgspec.field(name="media-types")


class Versions(Struct):
    """The supported versions."""

    versions: list[Version]
