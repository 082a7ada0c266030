# SPDX-License-Identifier: Apache-2.0
"""Volumes of Cinder that move to grow: the steps of these moves, by Cinder's own commands.

The design, by what cinder-volume of the releases 25 to 29 does, which is the same in all of them:

1. ``migrate_volume`` requires no status. It copies an attached volume by Nova alone, so only available ones move.
2. It leaves the status ``extending`` of cinder-api as it is, or sets ``previous_status`` at the end. That is set to
   ``extending`` first, so the volume is ``extending`` throughout, for users and for the reservations of its quota.
3. A driver moves the volume itself; otherwise a host copies it to another row, ``target:`` in its ``migration_status``,
   and both rows are swapped. The claim of the new size counts for both.
4. ``extend_volume`` comes next, in the new pool, with the reservations of cinder-api, which it commits.
5. The steps are in the ledger, each recorded before its command. A copy must not run twice, so ``migrate_volume`` is
   sent once at most: if it was not delivered, the growth is undone. ``extend_volume`` is sent again.
6. Both are calls with signs of life, not casts. A cinder-volume whose call is silent is taken for dead if its
   heartbeats show a gap, or if it is down; for a copy by a host it is enough that it answers a probe. Another
   scheduler, which has not called it, goes by the heartbeats alone.
7. Until the rows are swapped, a copy whose cinder-volume died is removed before the volume is available again: should
   the process live after all, it fails at its missing row. A swap that has begun is finished if the volume has the name
   of its copy already, as it does if cinder-volume fails at that point. (A driver that renames volumes does so for
   available ones alone.)
8. Undoing: remove copies, roll the reservations back, make the row available at its size, tell the user, end the claim.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.extensions.cinder.ledger import growths
from tonnage.extensions.cinder.ledger.growths import Growth, Step

LOG = logging.getLogger(__name__)

#: Seconds for which rows may contradict a step: between two writes of cinder-volume, or after the end of its call.
_GRACE = 10.0

#: Most seconds for which the removal of a copy is waited for.
_REMOVAL = 120.0

#: The largest gap between two heartbeats of a process that lives: this part of the interval, and these seconds more.
_BEAT_PART, _BEAT_LATE = 1.1, 0.5

#: Seconds after which a move that nobody can watch is named in the log.
_UNWATCHED = 600.0

EXTENDING = "extending"

#: Values of ``migration_status`` of a volume that cinder-volume moves.
_COPYING = ("migrating", "completing")


class Volume(NamedTuple):
    """The row of a volume in Cinder. ``name_id`` is the id in its name on the storage."""

    pool: str | None
    size_gb: int
    status: str
    migration_status: str
    previous_status: str
    name_id: str


class Copy(NamedTuple):
    """The row that Cinder makes for the copy of a volume."""

    id: str
    status: str


class Beats(NamedTuple):
    """Whether a cinder-volume of a backend is up, and the times of their last heartbeats in seconds, by host."""

    is_up: bool
    times: Mapping[str, float]


#: Is called with True at the end of a call, and with False when the called service gives no sign of life.
Ended = Callable[[bool], None]


class Cinder(Protocol):
    """Rows, commands and quotas of Cinder. Writes of rows are conditional, and tell whether the row was as expected."""

    #: Seconds between two heartbeats of a service.
    beat_interval: float

    def volume(self, volume_id: str) -> Volume | None: ...

    def copies(self, volume_id: str) -> Sequence[Copy]:
        """Return the copies of a volume that it is not swapped with."""

    def old_copies(self, volume_id: str) -> Sequence[Copy]:
        """Return the remains of a volume in pools that it has left."""

    def beats(self, backend: str) -> Beats: ...

    def mark(self, growth: Growth) -> bool:
        """Mark the row as that of a volume that begins to move, also again."""

    def migrate(self, growth: Growth, ended: Ended) -> None:
        """Send the command to migrate the volume, and return at once."""

    def extend(self, growth: Growth, ended: Ended) -> None:
        """Send the command to extend the volume, and return at once."""

    def swap(self, growth: Growth, copy_id: str) -> None:
        """Swap the rows of a volume and its copy, as cinder-volume does at the end of a migration."""

    def resume(self, growth: Growth) -> bool:
        """Let a volume be extending again whose rows were swapped the moment before."""

    def remove(self, copy_id: str) -> None:
        """Delete a copy, also again."""

    def give_back(self, growth: Growth) -> bool:
        """Make a volume that did not move available."""

    def roll_back(self, growth: Growth) -> None:
        """Roll the reservations back, also again."""

    def tell(self, growth: Growth) -> None:
        """Tell the user that the volume cannot grow."""


class Ledger(Protocol):
    """The records of growths, for one owner."""

    def growths(self) -> Sequence[Growth]:
        """Return the growths whose next steps are to be taken."""

    def record(self, growth: Growth, step: Step, reason: str = "") -> bool:
        """Record a step, and return whether to take it."""

    def end(self, growth: Growth) -> None:
        """End a growth."""

    def probes(self, backend: str) -> tuple[int, int]:
        """Return the numbers of the last probe of a backend and of the last one that was answered."""


@dataclass(slots=True)
class _Watch:
    """What this scheduler has seen of one step of a growth.

    It is ``called`` once the command was handed over without an error. ``outcome`` is that of the call, None while it
    runs.
    """

    since: float
    called: bool = False
    outcome: bool | None = None
    beats: dict[str, float] = field(default_factory=dict)
    is_up: bool = True
    has_restarted: bool = False
    odd_since: float | None = None
    probe: int | None = None
    copies: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    is_named: bool = False


class Growing:
    """Takes the steps of all growths of one scheduler. ``probe`` requests a probe of a backend."""

    def __init__(
        self,
        ledger: Ledger,
        cinder: Cinder,
        probe: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger, self._cinder, self._probe, self._clock = ledger, cinder, probe, clock
        self._watches: dict[tuple[str, Step], _Watch] = {}

    def turn(self) -> None:
        """Take the next steps. Those of a growth that fails are taken at the next turn."""
        present = self._ledger.growths()
        self._watches = {
            (growth.id, growth.step): self._watches.get((growth.id, growth.step), _Watch(self._clock()))
            for growth in present
        }
        for growth in present:
            try:
                self._advance(growth)
            except errors.Unavailable:
                raise
            except Exception:  # any error of Cinder, its database or its bus
                LOG.exception("The growth of volume %s is tried again", growth.volume_id)

    def _advance(self, growth: Growth) -> None:
        volume = self._cinder.volume(growth.volume_id)
        if volume is None:
            self._abandon(growth)
        elif growth.step is Step.CLAIMED:
            self._begin(growth)
        elif growth.step is Step.MOVING:
            self._watch_move(growth, volume)
        elif growth.step is Step.EXTENDING:
            self._watch_extension(growth, volume)
        else:
            self._undo(growth)

    def _watch(self, growth: Growth) -> _Watch:
        return self._watches[growth.id, growth.step]

    def _begin(self, growth: Growth) -> None:
        if not self._cinder.mark(growth):
            self._give_up(growth, "its row was changed meanwhile")
        elif self._ledger.record(growth, Step.MOVING):
            LOG.info("Volume %s moves from %s to %s to grow", growth.volume_id, growth.source, growth.target)
            watch = self._watches[growth.id, Step.MOVING] = _Watch(self._clock())
            self._cinder.migrate(growth, self._ended(watch))
            watch.called = True

    def _ended(self, watch: _Watch) -> Ended:
        def ended(outcome: bool) -> None:
            watch.outcome = outcome

        return ended

    def _watch_move(self, growth: Growth, volume: Volume) -> None:
        if volume.pool == growth.target:
            self._arrive(growth, volume)
        elif volume.status != EXTENDING or volume.pool != growth.source:
            self._give_up(growth, f"its status was set to {volume.status}")
        elif volume.migration_status == "starting":
            if self._is_undelivered(growth):
                self._give_up(growth, "the command to migrate it was lost")
        elif volume.migration_status in _COPYING:
            self._look_after(growth, volume)
        elif volume.migration_status == "error":
            if volume.name_id != growth.name_id:
                self._cinder.swap(growth, volume.name_id)
            else:
                self._give_up(growth, f"it could not be copied to {growth.target}")
        else:
            self._give_up(growth, f"its migration status was set to {volume.migration_status or 'none'}")

    def _arrive(self, growth: Growth, volume: Volume) -> None:
        """Extend a volume in its new pool."""
        if volume.status == EXTENDING:
            # An administrator may set the migration status.
            is_over = volume.migration_status == "success" or self._is_odd(growth)
            if is_over and self._ledger.record(growth, Step.EXTENDING):
                self._extend(growth, _Watch(self._clock()))
        elif volume.status == "available" and volume.previous_status == EXTENDING and not volume.migration_status:
            # Between two writes of cinder-volume, unless it ended there.
            if self._is_odd(growth):
                self._cinder.resume(growth)
        else:
            self._give_up(growth, f"its status was set to {volume.status}")

    def _extend(self, growth: Growth, watch: _Watch) -> None:
        self._watches[growth.id, Step.EXTENDING] = watch
        self._cinder.extend(growth, self._ended(watch))
        watch.called = True

    def _is_odd(self, growth: Growth) -> bool:
        """Return whether the rows contradict the step for longer than they may."""
        watch = self._watch(growth)
        if watch.odd_since is None:
            watch.odd_since = self._clock()
        return self._clock() - watch.odd_since >= _GRACE

    def _is_undelivered(self, growth: Growth) -> bool:
        """Return whether cinder-volume will never get the command: it has answered a probe that came after it."""
        watch = self._watch(growth)
        if watch.called and watch.outcome is None:
            return False
        if watch.called and watch.outcome:
            return self._is_odd(growth)
        return self._has_answered(watch, backend_of(growth.source)) and self._is_odd(growth)

    def _has_answered(self, watch: _Watch, backend: str) -> bool:
        """Return whether a backend has answered a probe since the first call of this method, or let it be probed."""
        last, answered = self._ledger.probes(backend)
        if watch.probe is None:
            watch.probe = last
        if answered > watch.probe:
            return True
        self._probe(backend)
        return False

    def _look_after(self, growth: Growth, volume: Volume) -> None:
        """Go on in place of a cinder-volume that has died while it moved a volume."""
        watch = self._watch(growth)
        copies = self._cinder.copies(growth.volume_id)
        watch.copies.update(copy.id for copy in copies)
        if watch.outcome:  # an error that the row does not show
            is_dead = self._is_odd(growth)
        else:
            self._look(watch, backend_of(growth.source))
            if watch.called:
                is_dead = watch.outcome is False and (
                    watch.has_restarted or (bool(copies) and self._has_answered(watch, backend_of(growth.source)))
                )
            else:
                is_dead = not watch.is_up or (watch.has_restarted and bool(copies))
        if not is_dead:
            self._name_unwatched(growth, watch)
        elif volume.name_id != growth.name_id:
            self._cinder.swap(growth, volume.name_id)
        else:
            self._give_up(growth, f"cinder-volume of {backend_of(growth.source)} ended while it copied the volume")

    def _look(self, watch: _Watch, backend: str) -> None:
        """Look at the heartbeats of a backend's services."""
        beats = self._cinder.beats(backend)
        gap = self._cinder.beat_interval * _BEAT_PART + _BEAT_LATE
        watch.is_up = beats.is_up
        watch.has_restarted |= not beats.is_up or any(
            time - watch.beats.get(host, time) > gap for host, time in beats.times.items()
        )
        watch.beats.update(beats.times)

    def _name_unwatched(self, growth: Growth, watch: _Watch) -> None:
        if not watch.is_named and growth.age >= _UNWATCHED and (not watch.called or watch.outcome is False):
            watch.is_named = True
            LOG.warning(
                "Volume %s has moved for %.0f s, and its cinder-volume gives no sign of life to this scheduler. If it "
                "was restarted since, set the status of the volume to 'available', and its growth is undone",
                growth.volume_id,
                growth.age,
            )

    def _watch_extension(self, growth: Growth, volume: Volume) -> None:
        watch = self._watch(growth)
        if volume.status == EXTENDING and volume.size_gb < growth.new_size_gb and volume.pool == growth.target:
            self._look(watch, backend_of(growth.target))
            if not watch.called:
                is_lost = growth.age >= growths.LEASE + _GRACE and watch.is_up
            elif watch.outcome:
                is_lost = self._is_odd(growth)
            else:
                is_lost = watch.outcome is False and watch.has_restarted and watch.is_up
            if is_lost:
                LOG.warning("Volume %s is extended again, in %s", growth.volume_id, growth.target)
                self._extend(growth, _Watch(self._clock()))
            return
        if volume.size_gb < growth.new_size_gb:
            # cinder-volume rolls back too, but for a driver that is not initialized.
            self._cinder.roll_back(growth)
        if self._are_removed(self._cinder.old_copies(growth.volume_id), growth):
            self._ledger.end(growth)

    def _are_removed(self, copies: Collection[Copy], growth: Growth) -> bool:
        """Return whether copies are gone, or have not gone for so long that no more is to be done."""
        watch = self._watch(growth)
        waited = self._clock() - watch.since
        if not copies or waited >= _REMOVAL:
            return True
        for copy in copies:
            # Those that are being made or removed get the time for it.
            in_hand = copy.status in ("creating", "deleting") and waited < _REMOVAL / 4
            if copy.id not in watch.removed and not in_hand:
                self._cinder.remove(copy.id)
                watch.removed.add(copy.id)
        return False

    def _give_up(self, growth: Growth, reason: str) -> None:
        if self._ledger.record(growth, Step.UNDOING, reason):
            LOG.warning("Volume %s does not grow: %s", growth.volume_id, reason)
            copies = self._watch(growth).copies
            self._watches[growth.id, Step.UNDOING] = _Watch(self._clock(), copies=copies)

    def _undo(self, growth: Growth) -> None:
        copies = {copy.id: copy for copy in self._cinder.copies(growth.volume_id)}
        # cinder-volume keeps a copy if it fails after the copy was complete, but the volume is where it was.
        for copy_id in self._watch(growth).copies - copies.keys():
            kept = self._cinder.volume(copy_id)
            if kept is not None and kept.pool == growth.target:
                copies[copy_id] = Copy(copy_id, kept.status)
        if not self._are_removed(copies.values(), growth):
            return
        self._cinder.roll_back(growth)
        if self._cinder.give_back(growth):
            self._cinder.tell(growth)
        self._ledger.end(growth)

    def _abandon(self, growth: Growth) -> None:
        """End the growth of a volume that was deleted."""
        if not self._are_removed(self._cinder.copies(growth.volume_id), growth):
            return
        self._cinder.roll_back(growth)
        self._ledger.end(growth)
