# SPDX-License-Identifier: Apache-2.0
"""Commands to agents, and keeping at it until they have answered.

A claim that is booked is carried out, whatever gets lost on the way: a command that has not been heard of for a lease
is sent again. Agents run each claim at most once in an epoch and answer a repeated command from their record, so
sending once more is how to ask.
"""

import logging
from collections.abc import Callable
from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.capacity.arithmetic import DEFAULT_RATIO
from tonnage.capacity.pools import backend_of
from tonnage.capacity.request import Provisioning
from tonnage.ledger.backends import PendingClaim
from tonnage.rpc.agent_client import AgentClient
from tonnage.rpc.messages import Command
from tonnage.rpc.messages import Verb
from tonnage.scheduler.host_manager import HostManager

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sent:
    claim: PendingClaim
    heard: float


class Dispatcher:
    """Sends commands and remembers which ones are out. Belongs to the decision thread."""

    def __init__(self, agents: AgentClient, hosts: HostManager, lease: float, clock: Callable[[], float]) -> None:
        self._agents = agents
        self._hosts = hosts
        self._lease = lease
        self._clock = clock
        self._out: dict[str, _Sent] = {}

    def send(self, claim: PendingClaim) -> None:
        """Send the command of a claim to its agent. If the bus fails, the command is sent again later."""
        backend = self._hosts.backend(backend_of(claim.pool_name))
        if backend is None or not backend.up:
            # Until its agent reports again the messages would only pile up. Then catch_up() finds that none is out.
            self._out.pop(claim.id, None)
            return
        self._out[claim.id] = _Sent(claim, self._clock())
        row = self._hosts.table.get(claim.pool_name)
        command = Command(
            claim_id=claim.id,
            epoch=backend.epoch,
            verb=Verb(claim.verb),
            volume_id=claim.volume_id,
            pool=claim.pool_name.rpartition("#")[2],
            size_gb=claim.target_size_gb,
            provisioning=Provisioning(claim.provisioning),
            ratio=DEFAULT_RATIO if row is None else row.ratio,
            calculation=self._hosts.calculation,
            request_id=claim.request_id,
        )
        try:
            self._agents.run(backend.name, command)
        except Exception as error:
            LOG.warning("Command %s for %s could not be sent and will be again: %s", claim.id, backend.name, error)

    def done(self, claim_ids: Iterable[str]) -> None:
        """Forget commands that have been answered."""
        for claim_id in claim_ids:
            self._out.pop(claim_id, None)

    def renew(self, claim_ids: Iterable[str]) -> None:
        """Note that an agent has these in hand."""
        now = self._clock()
        for claim_id in claim_ids:
            if claim_id in self._out:
                self._out[claim_id].heard = now

    def catch_up(self, pending: Iterable[PendingClaim]) -> None:
        """Compare with all pending claims of the ledger: forget what is settled, send what is unknown or overdue."""
        claims = {claim.id: claim for claim in pending}
        self.done([claim_id for claim_id in self._out if claim_id not in claims])
        now = self._clock()
        for claim in claims.values():
            sent = self._out.get(claim.id)
            if sent is None or now - sent.heard >= self._lease:
                self.send(claim)
