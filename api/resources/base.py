# SPDX-License-Identifier: Apache-2.0
"""What resources work with."""

from dataclasses import dataclass

from tonnage.api.body import BodyReader
from tonnage.api.listing import Lists
from tonnage.api.policies import Policy
from tonnage.ledger.database import Database
from tonnage.rpc.scheduler_client import SchedulerClient


@dataclass(frozen=True, slots=True)
class Tools:
    """Shared by all resources and safe to use from many threads."""

    database: Database
    scheduler: SchedulerClient
    policy: Policy
    bodies: BodyReader
    lists: Lists
