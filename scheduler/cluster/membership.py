# SPDX-License-Identifier: Apache-2.0
"""The schedulers beside this one: who is there, and whose turn it is."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.names import stable_hash
from tonnage.ledger.db.database import Database
from tonnage.ledger.inventory import heartbeats, scheduling_rules
from tonnage.scheduler import options
from tonnage.scheduler.settings import Settings

LOG = logging.getLogger(__name__)

#: How many signs of life a scheduler may miss before its turns go to the others.
_MISSED = 3

#: After how many seconds without a sign of life another scheduler is believed to be gone for good. One that is only
#: silent may have been suspended, or all of them cut off from the database, and decides again before it is heard.
_GONE = 3600.0


@dataclass(frozen=True, slots=True)
class MissedRules:
    """Rules that others have gone over to while a scheduler was away."""

    default_ratio: float | str
    calculation: Calculation
    generation: int


class Membership:
    """What is known of other schedulers. ``interval`` are the seconds between two signs of life.

    ``generation`` is that of the rules that this one goes by, with all others.
    ``alone`` tells whether there is no other one, which is not assumed before :meth:`look`. ``listening`` is to be set
    once this one hears agents: the silence of backends counts only while one did.
    """

    def __init__(self, settings: Settings, database: Database, interval: float) -> None:
        self._settings = settings
        self._database = database
        self._interval = interval
        self._others: frozenset[str] = frozenset()
        self._in_turn: frozenset[str] = frozenset({settings.host})
        self.generation = 0
        self.alone = False
        self.listening = False

    def join(self) -> None:
        """Say that this scheduler is there, and by which rules it goes.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if others go by other rules.
        """
        me = self._me(self._settings)
        self.generation = self._database.run(scheduling_rules.join, me, self._settings.service_down_time)

    def propose(
        self, default_ratio: float | str, calculation: Calculation, *, last: bool
    ) -> Sequence[scheduling_rules.Difference]:
        """Say that this scheduler is to go by other rules, and return who of the others does not say so yet.

        Once nobody differs these are the rules. Until then nothing may be decided here. ``last`` withdraws the proposal
        where somebody does.
        """
        wanted = replace(self._settings, default_ratio=default_ratio, calculation=calculation)
        before = self._me(self._settings) if last else None
        vote = self._database.run(scheduling_rules.propose, self._me(wanted), wanted.service_down_time, before)
        if not vote.differences:
            self._settings, self.generation = wanted, vote.generation
        return vote.differences

    def find_missed_rules(self) -> MissedRules | None:
        """Return the rules that the others have gone over to while this scheduler was away; None if they have not.

        Raises :class:`~tonnage.capacity.errors.Unavailable` for rules that it cannot go by.
        """
        with self._database.reading() as session:
            found = scheduling_rules.find(session)
        if found is None or found.generation == self.generation:
            return None
        try:
            ratio, calculation = options.default_ratio(found.default_ratio), Calculation(found.calculation)
        except (ValueError, errors.ConfigurationError) as error:
            raise errors.Unavailable(
                f"all schedulers go by max_over_subscription_ratio = {found.default_ratio} and "
                f"over_provisioning_calculation = {found.calculation}, and scheduler {self._settings.host} cannot: "
                "stop it, or install the release of the others"
            ) from error
        return MissedRules(ratio, calculation, found.generation)

    def adopt_rules(self, missed: MissedRules) -> None:
        """Go by what was missed, as all others do."""
        mine = self._settings
        self._settings = replace(mine, default_ratio=missed.default_ratio, calculation=missed.calculation)
        self.generation = missed.generation
        for option, here, there in (
            ("max_over_subscription_ratio", mine.default_ratio, missed.default_ratio),
            ("over_provisioning_calculation", mine.calculation.value, missed.calculation.value),
        ):
            if here != there:
                LOG.warning(
                    "While this scheduler was away the others have gone over to %s = %s, and it follows; it was %s "
                    "here: correct that in its configuration, or it does not start again",
                    option,
                    there,
                    here,
                )

    def leave(self) -> None:
        """Say that this scheduler ends."""
        self._database.run(heartbeats.leave, heartbeats.SCHEDULER, self._settings.host)

    def heartbeat(self) -> None:
        """Give a sign of life."""
        self._database.run(heartbeats.heartbeat, replace(self._me(self._settings), listening=self.listening))

    def refresh(self, session: orm.Session) -> None:
        """Look who is there."""
        schedulers = [row for row in heartbeats.load(session) if row.binary == heartbeats.SCHEDULER]
        others = [row for row in schedulers if row.host != self._settings.host]
        self.alone = not any(row.up(_GONE) for row in others)
        self._others = frozenset(row.host for row in others if row.up(_MISSED * self._interval))
        there = self._others | {self._settings.host}
        # Operators take turns from schedulers that they have disabled; if all are, somebody has to do it.
        enabled = {row.host for row in schedulers if row.enabled and row.host in there}
        self._in_turn = frozenset(enabled or there)

    def is_alone(self, session: orm.Session) -> bool:
        """Tell whether no other scheduler is there, also none that has come since the last look."""
        if not self.alone:
            return False
        silence = heartbeats.unheard_others(session, heartbeats.SCHEDULER, self._settings.host)
        return silence is None or silence > _GONE

    @property
    def scheduler_count(self) -> int:
        """How many schedulers there are, this one among them."""
        return 1 + len(self._others)

    def has_turn(self, backend: str) -> bool:
        """Tell whether it is this scheduler that applies a backend's reports as they come: each is one's turn."""
        if len(self._in_turn) == 1:
            return self._settings.host in self._in_turn
        return max(self._in_turn, key=lambda host: stable_hash(f"{host} {backend}")) == self._settings.host

    @staticmethod
    def _me(settings: Settings) -> heartbeats.Myself:
        return heartbeats.Myself(
            binary=heartbeats.SCHEDULER,
            host=settings.host,
            availability_zone=settings.availability_zone,
            default_ratio=str(settings.default_ratio),
            calculation=settings.calculation.value,
        )
