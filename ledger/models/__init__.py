# SPDX-License-Identifier: Apache-2.0
"""The ledger's tables.

Sizes and capacities are GiB: whole numbers where the ledger counts, two decimals where drivers report. Times are UTC,
by the database's clock. An operator may read all of this with plain SQL; only Tonnage may write it.
"""

from tonnage.ledger.models.announcements import Announcement
from tonnage.ledger.models.announcements import AnnouncementLease
from tonnage.ledger.models.backends import Backend
from tonnage.ledger.models.backends import Discrepancy
from tonnage.ledger.models.backends import Finding
from tonnage.ledger.models.backends import Pool
from tonnage.ledger.models.backends import Storage
from tonnage.ledger.models.base import LONGEST_ID
from tonnage.ledger.models.base import Base
from tonnage.ledger.models.base import Json
from tonnage.ledger.models.base import Timestamp
from tonnage.ledger.models.base import Uuid
from tonnage.ledger.models.base import age
from tonnage.ledger.models.base import table
from tonnage.ledger.models.base import utcnow
from tonnage.ledger.models.csi import CsiClaim
from tonnage.ledger.models.csi import CsiDriver
from tonnage.ledger.models.csi import CsiPool
from tonnage.ledger.models.csi import CsiStorage
from tonnage.ledger.models.groups import Group
from tonnage.ledger.models.groups import GroupType
from tonnage.ledger.models.groups import GroupVolumeType
from tonnage.ledger.models.quotas import Allocation
from tonnage.ledger.models.quotas import QuotaLimit
from tonnage.ledger.models.quotas import QuotaUsage
from tonnage.ledger.models.schedulers import Rules
from tonnage.ledger.models.schedulers import Service
from tonnage.ledger.models.types import ExtraSpec
from tonnage.ledger.models.types import QosSpecs
from tonnage.ledger.models.types import TypeAccess
from tonnage.ledger.models.types import TypeQos
from tonnage.ledger.models.types import VolumeType
from tonnage.ledger.models.volumes import Claim
from tonnage.ledger.models.volumes import Message
from tonnage.ledger.models.volumes import RequestKey
from tonnage.ledger.models.volumes import Volume

__all__ = [
    "LONGEST_ID",
    "Allocation",
    "Announcement",
    "AnnouncementLease",
    "Backend",
    "Base",
    "Claim",
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
    "Json",
    "Message",
    "Pool",
    "QosSpecs",
    "QuotaLimit",
    "QuotaUsage",
    "RequestKey",
    "Rules",
    "Service",
    "Storage",
    "Timestamp",
    "TypeAccess",
    "TypeQos",
    "Uuid",
    "Volume",
    "VolumeType",
    "age",
    "table",
    "utcnow",
]
