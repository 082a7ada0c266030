# SPDX-License-Identifier: Apache-2.0
"""The ledger's tables.

Sizes and capacities are GiB: whole numbers for the ledger's own counts, two decimals for reported figures. Times are
UTC, by the database's clock. An operator may read all tables with plain SQL; only Tonnage may write them. The module
``tables`` of an extension has its tables; all share the metadata of :class:`Base`.
"""

from tonnage.ledger.models.backends import Backend, Discrepancy, Finding, Pool, Storage, StorageMark
from tonnage.ledger.models.base import LONGEST_ID, Base, Json, Timestamp, Uuid, age, silence, table, utcnow
from tonnage.ledger.models.groups import Group, GroupType, GroupVolumeType
from tonnage.ledger.models.quota_limits import QuotaLimit, QuotaUsage
from tonnage.ledger.models.refusals import Refusal
from tonnage.ledger.models.schedulers import LedgerIdentity, Rules, Service, WriteProbeRow, WriterSlot
from tonnage.ledger.models.volume_types import ExtraSpec, QosSpecs, TypeAccess, TypeQos, VolumeType
from tonnage.ledger.models.volumes import Claim, Message, RequestKey, Volume

__all__ = [
    "LONGEST_ID",
    "Backend",
    "Base",
    "Claim",
    "Discrepancy",
    "ExtraSpec",
    "Finding",
    "Group",
    "GroupType",
    "GroupVolumeType",
    "Json",
    "LedgerIdentity",
    "Message",
    "Pool",
    "QosSpecs",
    "QuotaLimit",
    "QuotaUsage",
    "Refusal",
    "RequestKey",
    "Rules",
    "Service",
    "Storage",
    "StorageMark",
    "Timestamp",
    "TypeAccess",
    "TypeQos",
    "Uuid",
    "Volume",
    "VolumeType",
    "WriteProbeRow",
    "WriterSlot",
    "age",
    "silence",
    "table",
    "utcnow",
]
