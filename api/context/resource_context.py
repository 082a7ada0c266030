# SPDX-License-Identifier: Apache-2.0
"""The objects that all resources share, and the response to a refusal."""

from dataclasses import dataclass

import falcon

from tonnage.api.auth import policies
from tonnage.api.auth.enforcement import Policy
from tonnage.api.http import faults, microversions
from tonnage.api.http.body import BodyReader
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Paginator
from tonnage.capacity import errors
from tonnage.capacity.decision import Refusal
from tonnage.ledger.catalog import volumes
from tonnage.ledger.db.database import Database
from tonnage.rpc.clients.scheduler_client import SchedulerClient


@dataclass(frozen=True, slots=True)
class ResourceContext:
    """Objects that all resources share. Safe to use from many threads.

    A backend counts as down after ``down_time`` seconds without a report.
    """

    database: Database
    scheduler: SchedulerClient
    policy: Policy
    bodies: BodyReader
    paginator: Paginator
    down_time: float

    def authorized_volume(self, req: Request, volume_id: str, rule: str) -> volumes.VolumeDetails:
        """Return a volume that the user can see, if the policy rule allows the call.

        Raises :class:`~tonnage.capacity.errors.NotFound` for a missing volume and for one of another project, and
        :class:`~tonnage.api.http.faults.Forbidden`.
        """
        identity = req.context.identity
        volume = self.database.read(volumes.get, volume_id, self.policy.visible_project(identity))
        self.policy.require(identity, rule, volume.project_id)
        return volume

    def may_see_causes(self, req: Request) -> bool:
        """Return whether the sender of a request, if it is known, may see why the database does not answer."""
        identity = getattr(req.context, "identity", None)
        return identity is not None and self.policy.allows(identity, policies.FAILURE_DETAILS)

    def write_refusal(self, req: Request, resp: falcon.Response, refusal: Refusal) -> None:
        """Write a refusal into the response, with names and figures of pools if the policy allows it.

        The refusal is text; since 3.72 the body has it as data too.

        Raises :class:`~tonnage.capacity.errors.OverQuota` for a refusal by a quota.
        """
        if refusal.excess is not None:
            raise errors.OverQuota(refusal.excess.sentence)
        size, message = refusal.largest_size_gb, refusal.message
        if not self.policy.allows(req.context.identity, policies.FAILURE_DETAILS):
            refusal = refusal.without_pools()
            message = refusal.message + (f"; {size} GiB would fit" if size else "")
        # Cinder's bodies have neither key.
        data = {"refusal": refusal, "largest_size_gb": size} if req.at_least(microversions.OWN_KEYS) else {}
        faults.write(resp, 409, message, **{key: value for key, value in data.items() if value is not None})
