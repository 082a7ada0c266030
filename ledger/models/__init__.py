# SPDX-License-Identifier: Apache-2.0
"""The ledger's tables.

Sizes and capacities are GiB: whole numbers for the ledger's own counts, two decimals for reported figures. Times are
UTC, by the database's clock. An operator may read all tables with plain SQL; only Tonnage may write them.
"""

from tonnage.extensions.announcements.tables import Announcement, AnnouncementLease
from tonnage.extensions.cinder.ledger.tables import CinderDecision, CinderFinding
from tonnage.extensions.history.tables import ComingRefusals, HistoryTurn, PoolForecast, PoolHistory, TypeHistory
from tonnage.extensions.kubernetes.ledger.tables import CsiClaim, CsiDriver, CsiPool, CsiStorage
from tonnage.ledger.models.backends import Backend, Discrepancy, Finding, Pool, Storage
from tonnage.ledger.models.base import LONGEST_ID, Base, Json, Timestamp, Uuid, age, silence, table, utcnow
from tonnage.ledger.models.groups import Group, GroupType, GroupVolumeType
from tonnage.ledger.models.quota_limits import Allocation, QuotaLimit, QuotaUsage
from tonnage.ledger.models.refusals import Refusal
from tonnage.ledger.models.schedulers import LedgerIdentity, Rules, Service, WriterSlot
from tonnage.ledger.models.volume_types import ExtraSpec, QosSpecs, TypeAccess, TypeQos, VolumeType
from tonnage.ledger.models.volumes import Claim, Message, RequestKey, Volume

__all__ = [
    "LONGEST_ID",
    "Allocation",
    "Announcement",
    "AnnouncementLease",
    "Backend",
    "Base",
    "CinderDecision",
    "CinderFinding",
    "Claim",
    "ComingRefusals",
    "CsiClaim",
    "CsiDriver",
    "CsiPool",
    "CsiStorage",
    "Discrepancy",
    "ExtraSpec",
    "Finding",
    "Group",
    "GroupType",
    "GroupVolumeType",
    "HistoryTurn",
    "Json",
    "LedgerIdentity",
    "Message",
    "Pool",
    "PoolForecast",
    "PoolHistory",
    "QosSpecs",
    "QuotaLimit",
    "QuotaUsage",
    "Refusal",
    "RequestKey",
    "Rules",
    "Service",
    "Storage",
    "Timestamp",
    "TypeAccess",
    "TypeHistory",
    "TypeQos",
    "Uuid",
    "Volume",
    "VolumeType",
    "WriterSlot",
    "age",
    "silence",
    "table",
    "utcnow",
]
