# SPDX-License-Identifier: Apache-2.0
"""The membership of schedulers: which ones are up, and which one applies the reports of a backend."""

import logging
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool import stable_hash
from tonnage.ledger.db.database import Database
from tonnage.ledger.locks import heartbeats, scheduling_rules
from tonnage.scheduler.configuration import options
from tonnage.scheduler.configuration.settings import Settings

LOG = logging.getLogger(__name__)

#: Number of missed heartbeats after which the turns of a scheduler go to the others.
_MISSED = 3

#: Seconds without a heartbeat after which another scheduler counts as gone for good. After a shorter silence it may
#: have been suspended, or cut off from the database with all others, and decides again before its next heartbeat.
_GONE = 3600.0


@dataclass(frozen=True, slots=True)
class MissedRules:
    """Rules that the other schedulers adopted while this one was away."""

    default_ratio: float | str
    calculation: Calculation
    generation: int


def _record_heartbeat(session: orm.Session, me: heartbeats.SchedulerProcess) -> bool:
    """Record a heartbeat; return whether the last one for this host came from another process."""
    shared = heartbeats.shares_host(session, me)
    heartbeats.heartbeat(session, me)
    return shared


class Membership:
    """The schedulers that share a ledger, as one of them sees them. ``interval`` is the seconds between heartbeats.

    The rules are the same for all, see :mod:`tonnage.ledger.locks.scheduling_rules`; ``generation`` is theirs in the
    ledger. ``alone`` is true if there is no other scheduler, including any with the same host by mistake; it is false
    before the first :meth:`refresh`. ``listening`` has to be set once this scheduler receives reports: the silence of
    backends counts only while a scheduler does.
    """

    def __init__(self, settings: Settings, database: Database, interval: float) -> None:
        self._settings = settings
        self._database = database
        self._interval = interval
        self._in_turn: frozenset[str] = frozenset({settings.host})
        self._nonce = uuid.uuid4().hex
        # Until this time another process may be up that has the same host.
        self._shares_host_until = 0.0
        self.generation = 0
        self.alone = False
        self.listening = False
        # A scheduler may leave while its start goes on in other threads, which must not register it again.
        self._registration = threading.Lock()
        self._left = False

    def join(self) -> None:
        """Register this scheduler and its rules, unless it has left.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if other schedulers apply other rules.
        """
        me = self._me(self._settings)
        with self._database.reading() as session:
            if heartbeats.shares_host(session, me):  # it was killed, or it is up and sends a heartbeat soon
                self._shares_host_until = time.monotonic() + _MISSED * self._interval
        with self._registration:
            if not self._left:
                down_time = self._settings.service_down_time
                self.generation = self._database.run(scheduling_rules.register_scheduler, me, down_time)

    def propose(
        self, default_ratio: float | str, calculation: Calculation, *, last: bool
    ) -> Sequence[scheduling_rules.Difference]:
        """Propose other rules, and return the schedulers that have not proposed the same yet.

        Once all have, these are the rules. Until then this scheduler must not decide anything. ``last`` withdraws the
        proposal unless all agree.
        """
        proposal = replace(self._settings, default_ratio=default_ratio, calculation=calculation)
        before = self._me(self._settings) if last else None
        vote = self._database.run(
            scheduling_rules.propose_rules, self._me(proposal), proposal.service_down_time, before
        )
        if not vote.differences:
            self._settings, self.generation = proposal, vote.generation
        return vote.differences

    def find_missed_rules(self) -> MissedRules | None:
        """Return the rules that the others have adopted while this scheduler was away, None if there are none.

        Raises :class:`~tonnage.capacity.errors.Unavailable` for rules that this scheduler does not know.
        """
        with self._database.reading() as session:
            rules = scheduling_rules.find(session)
        if rules is None or rules.generation == self.generation:
            return None
        if rules.hook_extensions != self._settings.hook_extensions:
            raise errors.Unavailable(
                f"all schedulers have the extensions '{rules.hook_extensions}' in their transactions, and scheduler "
                f"{self._settings.host} has '{self._settings.hook_extensions}': set its enabled_extensions as that of "
                "the others, and start it again"
            )
        try:
            ratio, calculation = options.default_ratio(rules.default_ratio), Calculation(rules.calculation)
        except (ValueError, errors.ConfigurationError) as error:
            raise errors.Unavailable(
                f"all schedulers go by max_over_subscription_ratio = {rules.default_ratio} and "
                f"over_provisioning_calculation = {rules.calculation}, and scheduler {self._settings.host} cannot: "
                "stop it, or install the release of the others"
            ) from error
        return MissedRules(ratio, calculation, rules.generation)

    def adopt_rules(self, missed: MissedRules) -> None:
        """Adopt the rules that all others apply."""
        settings = self._settings
        self._settings = replace(settings, default_ratio=missed.default_ratio, calculation=missed.calculation)
        self.generation = missed.generation
        for option, old, new in (
            ("max_over_subscription_ratio", settings.default_ratio, missed.default_ratio),
            ("over_provisioning_calculation", settings.calculation.value, missed.calculation.value),
        ):
            if old != new:
                LOG.warning(
                    "While this scheduler was away the others have gone over to %s = %s, and it follows; it was %s "
                    "here: correct that in its configuration, or it does not start again",
                    option,
                    new,
                    old,
                )

    def leave(self) -> None:
        """Note in the ledger that this scheduler ends. From now on it does not join, and sends no heartbeats."""
        with self._registration:
            self._left = True
            self._database.run(heartbeats.leave, self._me(self._settings))

    def heartbeat(self) -> None:
        """Note in the ledger that this scheduler is up, unless it has left."""
        me = replace(self._me(self._settings), listening=self.listening, ledger_fault=self._database.refusal)
        with self._registration:
            shares_host = not self._left and self._database.run(_record_heartbeat, me)
        if shares_host:
            LOG.warning(
                "Another scheduler runs with [DEFAULT] host = %s too: give each a host of its own", self._settings.host
            )
            self._shares_host_until = time.monotonic() + _GONE

    def refresh(self, session: orm.Session) -> None:
        """Read which schedulers are up."""
        schedulers = [row for row in heartbeats.load(session) if row.binary == heartbeats.SCHEDULER]
        peers = [row for row in schedulers if row.host != self._settings.host]
        self.alone = not any(row.up(_GONE) for row in peers) and time.monotonic() >= self._shares_host_until
        up_hosts = {row.host for row in peers if row.up(_MISSED * self._interval)} | {self._settings.host}
        # A disabled scheduler has no turns, unless all are disabled.
        enabled = {row.host for row in schedulers if row.enabled and row.host in up_hosts}
        self._in_turn = frozenset(enabled or up_hosts)

    def is_alone(self, session: orm.Session) -> bool:
        """Return whether there is no other scheduler, including any that has joined since the last refresh."""
        if not self.alone:
            return False
        silence = heartbeats.seconds_without_others(session, heartbeats.SCHEDULER, self._settings.host, self._nonce)
        return silence is None or silence > _GONE

    def has_turn(self, backend: str) -> bool:
        """Return whether it is this scheduler's turn to apply the reports of a backend at once."""
        if len(self._in_turn) == 1:
            return self._settings.host in self._in_turn
        return max(self._in_turn, key=lambda host: stable_hash(f"{host} {backend}")) == self._settings.host

    def _me(self, settings: Settings) -> heartbeats.SchedulerProcess:
        return heartbeats.SchedulerProcess(
            binary=heartbeats.SCHEDULER,
            host=settings.host,
            nonce=self._nonce,
            availability_zone=settings.availability_zone,
            default_ratio=str(settings.default_ratio),
            calculation=settings.calculation.value,
            hook_extensions=settings.hook_extensions,
        )
