# SPDX-License-Identifier: Apache-2.0
"""What resources work with."""

from dataclasses import dataclass

import falcon

from tonnage.api.auth.enforcement import Policy
from tonnage.api.http import faults
from tonnage.api.http.body import BodyReader
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Lists
from tonnage.capacity import errors
from tonnage.capacity.decision import Refusal
from tonnage.ledger import models
from tonnage.ledger.catalog import volumes
from tonnage.ledger.db.database import Database
from tonnage.rpc.scheduler_client import SchedulerClient


@dataclass(frozen=True, slots=True)
class Tools:
    """Shared by all resources and safe to use from many threads."""

    database: Database
    scheduler: SchedulerClient
    policy: Policy
    bodies: BodyReader
    lists: Lists

    def seen(self, req: Request, volume_id: str, rule: str) -> models.Volume:
        """Return a volume that the asker can see and may do this to.

        One path for all: a volume of another project is answered as one that does not exist.
        """
        identity = req.context.identity
        with self.database.reading() as session:
            volume = volumes.get(session, volume_id, self.policy.reach(identity))
        self.policy.require(identity, rule, volume.project_id)
        return volume


def refused(resp: falcon.Response, refusal: Refusal | None) -> bool:
    """Tell whether there is a refusal, and make it the response if so.

    Raises :class:`~tonnage.capacity.errors.OverQuota` for one for lack of quota.
    """
    if refusal is None:
        return False
    if refusal.excess is not None:
        raise errors.OverQuota(refusal.excess.sentence)
    faults.write(resp, 409, refusal.message, refusal=refusal)
    return True
