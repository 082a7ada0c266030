# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for a decision, as the rows of Cinder's volumes show them.

Cinder's API writes the row of a volume before it sends the request. So a volume that waits longer than a decision may
take has lost its request: the broker lost the message, or a scheduler was killed that had just received it.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from tonnage.capacity.decision import Undecided
from tonnage.extensions.cinder.ledger.growths import GROW
from tonnage.extensions.cinder.ledger.observed_claims import OpenClaim
from tonnage.extensions.cinder.scheduler.claim_ends import MOVING, VolumeRow
from tonnage.ledger.models import claim_verbs

#: The requests that rows show, each with the verb of the claim that decides it.
_WAITS: dict[str, tuple[str, Callable[[VolumeRow], bool]]] = {
    "create": (claim_verbs.CREATE, lambda row: row.status == "creating" and row.pool is None),
    "extend": (claim_verbs.EXTEND, lambda row: row.status == "extending"),
    "migrate": (claim_verbs.MIGRATE, lambda row: row.migration_status == "starting" and row.status != "retyping"),
    "retype": (claim_verbs.MIGRATE, lambda row: row.status == "retyping" and row.migration_status not in MOVING),
}


class WaitingRequests:
    """The requests that wait, from one poll of all rows to the next. ``timeout`` is the longest time in seconds."""

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout, self._clock = timeout, clock
        #: The times since which requests wait, None once they are reported, by volume and operation.
        self._since: dict[tuple[str, str], float | None] = {}

    def overdue(self, claims: Sequence[OpenClaim], rows: Iterable[VolumeRow]) -> list[tuple[VolumeRow, str, Undecided]]:
        """Return the requests that have waited too long since the last polls, once each, with their operations.

        A claim whose command was not sent decides nothing. A volume that moves to grow waits for no decision.
        """
        now = self._clock()
        claimed = {(claim.volume_id, claim.verb) for claim in claims if claim.sent and not claim.ended}
        growing = {claim.volume_id for claim in claims if claim.verb == GROW}
        waiting = {
            (row.id, operation): row
            for row in rows
            if row.id not in growing
            for operation, (verb, waits) in _WAITS.items()
            if waits(row) and (row.id, verb) not in claimed
        }
        self._since = {key: self._since.get(key, now) for key in waiting}
        overdue = []
        for (volume_id, operation), since in self._since.items():
            if since is not None and now - since >= self._timeout:
                self._since[volume_id, operation] = None
                row = waiting[volume_id, operation]
                overdue.append(
                    (row, operation, Undecided(f"{operation} of a volume of {row.size_gb} GiB", now - since))
                )
        return overdue
