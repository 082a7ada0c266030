# SPDX-License-Identifier: Apache-2.0
"""The bodies of answers that are in no other module of bodies.

The keys are those of the Block Storage API v3; those that Cinder does not have are ours. A key that is UNSET is left
out: it came with a later microversion, or the asker may not see it. Times are UTC, sizes GiB.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tonnage.capacity.decision import Refusal
from tonnage.capacity.explanation import Explanation
from tonnage.rpc.messages import Outlook


class Fault(Struct):
    """What went wrong. ``refusal`` says of a volume that finds no pool why, as data."""

    code: int
    message: str
    retryAfter: str | UnsetType = UNSET  # noqa: N815  (the name on the wire)
    refusal: Refusal | UnsetType = UNSET


class Link(Struct):
    """Where something is found."""

    rel: str
    href: str


class VolumeSummary(Struct, kw_only=True):
    """A volume in short."""

    id: str
    name: str | None
    links: list[Link]


class VolumeDetail(VolumeSummary, kw_only=True):
    """A volume. ``status_reason`` is ours: why it is in error, or what its last operation met."""

    description: str | None
    status: str
    status_reason: str | None
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


class Volume(Struct):
    """One volume."""

    volume: VolumeDetail


class MadeVolumes(Struct):
    """The volumes that were asked for at once."""

    volumes: list[VolumeDetail]


class _Page(Struct, kw_only=True):
    """``count`` is how many there are on all pages."""

    volumes_links: list[Link] | UnsetType = UNSET
    count: int | UnsetType = UNSET


class VolumeSummaries(_Page, kw_only=True):
    """A page of volumes in short."""

    volumes: list[VolumeSummary]


class VolumeDetails(_Page, kw_only=True):
    """A page of volumes."""

    volumes: list[VolumeDetail]


class Totals(Struct):
    """How many volumes there are, and what sizes they have together."""

    total_count: int
    total_size: int
    metadata: dict[str, list[str]] | UnsetType = UNSET


class VolumesSummary(Struct):
    """All volumes added up."""

    volume_summary: Totals = msgspec.field(name="volume-summary")


class Metadata(Struct):
    """The metadata of a volume."""

    metadata: dict[str, str]


class MetadataItem(Struct):
    """One item of it."""

    meta: dict[str, str]


class Pool(Struct):
    """A pool. ``capabilities`` is what is reported and kept of it; ``capacity_factors`` are from 3.72 on."""

    name: str
    capabilities: dict[str, Any] | UnsetType = UNSET
    capacity_factors: list[dict[str, Any]] | UnsetType = UNSET


class Pools(Struct):
    """The pools."""

    pools: list[Pool]


class Explained(Struct):
    """How one request would be decided, or, for several volumes, each of them."""

    explanation: Explanation | UnsetType = UNSET
    explanations: list[Explanation] | UnsetType = UNSET


class Outlooks(Struct):
    """How requests would be decided, one after another."""

    outlooks: list[Outlook]


class Reference(Struct):
    """What a volume is called on its storage."""

    source_name: str = msgspec.field(name="source-name")


class ManageableDetail(Struct, kw_only=True):
    """Something on the storage that can be taken over; ``extra_info`` tells from which pool."""

    reference: Reference
    size: int
    safe_to_manage: bool = True
    reason_not_safe: str | UnsetType | None = UNSET
    cinder_id: str | UnsetType | None = UNSET
    extra_info: str | UnsetType = UNSET


class ManageableVolumes(Struct):
    """What can be taken over."""

    manageable: list[ManageableDetail] = msgspec.field(name="manageable-volumes")


class Message(Struct, kw_only=True):
    """Why an operation failed after it had been accepted. Kept until ``guaranteed_until`` if nobody deletes it."""

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
    """A part of the API that is an extension in Cinder."""

    alias: str
    name: str
    description: str
    updated: str = "2026-11-01T00:00:00Z"
    links: list[Link] = []


class Extensions(Struct):
    """Those parts that are served."""

    extensions: list[Extension]


class ResourceFilter(Struct):
    """What the list of a resource can be narrowed down by."""

    resource: str
    filters: list[str]


class ResourceFilters(Struct):
    """What lists can be narrowed down by."""

    resource_filters: list[ResourceFilter]


class Health(Struct):
    """Whether volumes can be created, and if not, why."""

    healthy: bool
    reasons: list[str]


class MediaType(Struct):
    """What bodies are made of."""

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
    """The versions that are served."""

    versions: list[Version]
