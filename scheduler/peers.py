# SPDX-License-Identifier: Apache-2.0
"""The schedulers beside this one: who is there, what all of them understand, and whose turn it is."""

import logging
from dataclasses import replace

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools import stable_hash
from tonnage.ledger import services
from tonnage.ledger.database import Database
from tonnage.rpc import versions
from tonnage.scheduler.settings import Settings

LOG = logging.getLogger(__name__)

#: How many signs of life a scheduler may miss before its turns go to the others.
_MISSED = 3

#: After how many seconds without a sign of life another scheduler is believed to be gone for good. One that is only
#: silent may have been suspended, or all of them cut off from the database, and decides again before it is heard.
_GONE = 3600.0


class Peers:
    """What is known of other schedulers. ``interval`` are the seconds between two signs of life.

    ``rpc_version`` is what all of them understand, and ``alone`` tells whether there is none; until they have been
    looked for, the least is expected of them.
    """

    def __init__(self, settings: Settings, database: Database, interval: float) -> None:
        self._settings = settings
        self._database = database
        self._interval = interval
        self._others: frozenset[str] = frozenset()
        self._differences: list[services.Difference] = []
        self.rpc_version = versions.FIRST
        self.alone = False

    def join(self) -> None:
        """Say that this scheduler is there, and by which rules it goes.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if others go by other rules.
        """
        # Said before it is compared: of two that start at the same moment at least one sees the other.
        self.heartbeat()
        try:
            self._database.run(services.agree, self._me(self._settings), self._settings.service_down_time)
        except errors.ConfigurationError:
            self.leave()
            raise

    def propose(self, default_ratio: float | str, calculation: Calculation, *, last: bool) -> list[services.Difference]:
        """Say that this scheduler is to go by other rules, and return who of the others does not say so yet.

        Once nobody differs these are the rules. Until then nothing may be decided here. ``last`` withdraws the proposal
        where somebody does.
        """
        wanted = replace(self._settings, default_ratio=default_ratio, calculation=calculation)
        before = self._me(self._settings) if last else None
        found = self._database.run(services.propose, self._me(wanted), wanted.service_down_time, before)
        if not found:
            self._settings = wanted
        return found

    def leave(self) -> None:
        """Say that this scheduler ends."""
        self._database.run(services.leave, services.SCHEDULER, self._settings.host)

    def heartbeat(self) -> None:
        """Give a sign of life."""
        self._database.run(services.heartbeat, self._me(self._settings))

    def look(self, session: orm.Session) -> None:
        """Look who is there."""
        spoken = services.rpc_versions(session, self._settings.service_down_time)
        self.rpc_version = versions.least(spoken)
        others = [
            row
            for row in services.load(session)
            if row.binary == services.SCHEDULER and row.host != self._settings.host
        ]
        self.alone = not any(row.up(_GONE) for row in others)
        self._others = frozenset(row.host for row in others if row.up(_MISSED * self._interval))
        self._compare(session)

    def _compare(self, session: orm.Session) -> None:
        """Tell, once, of others who go by other rules: they are about to change them, or one was asleep meanwhile."""
        found = services.differences(session, self._me(self._settings), self._settings.service_down_time)
        for difference in found:
            if difference not in self._differences:
                LOG.warning("The %s; signal all schedulers, or restart the one that is wrong", difference)
        self._differences = found

    def all_new(self) -> bool:
        """Tell whether every scheduler knows all that a claim may be for: an old one would take it for something else.

        The orders that schedulers give on their own wait for the end of an upgrade as requests do.
        """
        return versions.reaches(self.rpc_version, versions.CURRENT)

    def has_turn(self, backend: str) -> bool:
        """Tell whether it is this scheduler that applies a backend's reports as they come: each is one's turn."""
        others = self._others
        if not others:
            return True
        return max((*others, self._settings.host), key=lambda host: stable_hash(f"{host} {backend}")) not in others

    @staticmethod
    def _me(settings: Settings) -> services.Myself:
        return services.Myself(
            binary=services.SCHEDULER,
            host=settings.host,
            availability_zone=settings.availability_zone,
            default_ratio=str(settings.default_ratio),
            calculation=settings.calculation.value,
            rpc_version=versions.CURRENT,
        )
