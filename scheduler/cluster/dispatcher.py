# SPDX-License-Identifier: Apache-2.0
"""The dispatcher of commands to agents. It sends a command again until its agent has answered.

So a booked claim is carried out although messages may be lost: a command without news for a lease is sent again. Agents
run each claim at most once in an epoch and answer a repeated command from their record, so a repeated command asks for
the outcome.
"""

import math
from collections.abc import Callable, Iterable
from typing import Protocol

from tonnage.capacity.arithmetic import DEFAULT_RATIO
from tonnage.capacity.pools.pool import backend_of, short_name
from tonnage.capacity.request import Provisioning
from tonnage.ledger.claims.bookings import Booking
from tonnage.ledger.inventory.pending_claims import PendingClaim, SourceVolume
from tonnage.ledger.models import claim_verbs
from tonnage.rpc.messages import Command, Source, Verb
from tonnage.scheduler.cache.host_manager import HostManager


class CommandQueue(Protocol):
    """The queues of commands to agents. The caller never waits."""

    def run(self, backend: str, command: Command) -> None: ...


class Dispatcher:
    """Sends commands and remembers those without an answer. Belongs to the decision thread."""

    def __init__(self, commands: CommandQueue, hosts: HostManager, lease: float, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._hosts = hosts
        self._lease = lease
        self._clock = clock
        #: When each command that is out was last sent, or its agent last confirmed that it works on it.
        self._out: dict[str, float] = {}
        self._caught_up = False

    def send(self, claim: Booking | PendingClaim) -> None:
        """Send the command of a claim to its agent. If the bus fails, the command is sent again later."""
        backend = self._hosts.backend(backend_of(claim.pool_name))
        if backend is None or not backend.up:
            # Messages would only pile up until its agent reports again. Then catch_up() sends the command.
            self._out.pop(claim.id, None)
            return
        self._out[claim.id] = self._clock()
        entry = self._hosts.entries.get(claim.pool_name)
        # Nothing is booked for a volume that is adopted by its name on the storage.
        reference = claim.reference if isinstance(claim, PendingClaim) else None
        self._commands.run(
            backend.name,
            Command(
                claim_id=claim.id,
                epoch=backend.epoch,
                verb=Verb(claim.verb),
                volume_id=claim.volume_id,
                pool=short_name(claim.pool_name),
                size_gb=claim.target_size_gb,
                # It is unknown for a volume that is adopted.
                provisioning=Provisioning(claim.provisioning or Provisioning.THIN),
                ratio=DEFAULT_RATIO if entry is None else entry.ratio,
                calculation=self._hosts.calculation,
                request_id=claim.request_id,
                source=None if claim.source is None else self._source(claim.source),
                reference=reference or "",
                # The scheduler that books a claim sends the command first.
                sent_before=isinstance(claim, PendingClaim),
            ),
        )

    def done(self, claim_ids: Iterable[str]) -> None:
        """Forget commands that have been answered."""
        for claim_id in claim_ids:
            self._out.pop(claim_id, None)

    def undelivered(self, claim_ids: Iterable[str]) -> None:
        """Note that the bus did not accept these commands: they are sent again at the next opportunity."""
        for claim_id in claim_ids:
            if claim_id in self._out:
                self._out[claim_id] = -math.inf

    def renew(self, claim_ids: Iterable[str]) -> None:
        """Renew the leases of claims that an agent has in hand."""
        now = self._clock()
        for claim_id in claim_ids:
            if claim_id in self._out:
                self._out[claim_id] = now

    def catch_up(self, pending: Iterable[PendingClaim]) -> None:
        """Compare with all pending claims of the ledger: forget settled claims and send overdue commands.

        The scheduler that booked a claim also sends its command; so a claim that is unknown here gets a lease before it
        is sent from here. Exceptions are the first call, when this scheduler may be the only one, and purges, which no
        scheduler has sent.
        """
        claims = {claim.id: claim for claim in pending}
        self.done([claim_id for claim_id in self._out if claim_id not in claims])
        now = self._clock()
        for claim in claims.values():
            sent = self._out.get(claim.id)
            if sent is None and self._caught_up and claim.age < self._lease and claim.verb != claim_verbs.PURGE:
                continue
            if sent is None or now - sent >= self._lease:
                self.send(claim)
        self._caught_up = True

    def _source(self, volume: SourceVolume) -> Source:
        entry = self._hosts.entries.get(volume.pool_name)
        location = "" if entry is None else str(entry.stats.capabilities.get("location_info", ""))
        return Source(volume_id=volume.volume_id, pool=volume.pool_name, size_gb=volume.size_gb, location=location)
