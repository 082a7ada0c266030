# SPDX-License-Identifier: Apache-2.0
"""Volumes of Cinder that move to grow: the steps of these moves, by Cinder's own commands.

The design, by what cinder-volume of the releases 25 to 29 does, which is the same in all of them:

1. ``migrate_volume`` requires no status. It copies an attached volume by Nova alone, so only available ones move.
2. It leaves the status ``extending`` of cinder-api as it is, or sets ``previous_status`` at the end. That is set to
   ``extending`` first, so the volume is ``extending`` throughout, for users and for the reservations of its quota.
3. A driver moves the volume itself; otherwise a host copies it to another row, ``target:`` in its ``migration_status``,
   and both rows are swapped. The claim of the new size counts for both.
4. ``extend_volume`` comes next, in the new pool, with the reservations of cinder-api, which it commits.
5. The steps are in the ledger, each recorded before its command. A scheduler may be frozen at any moment, and go on
   when another one has taken its growths over: so it renews its ownership right before each change in Cinder.
6. A command is over if its call was answered, if it was not sent, or if there can be no call: it is no longer in a
   queue, because cinder-volume has answered a later message, and no process executes it, because the heartbeats of all
   that may do so have stopped since. Only then is a growth undone or ``extend_volume`` sent again. A copy must not run
   twice, so ``migrate_volume`` is sent once: if it is over and nothing has begun, the growth is undone.
7. Both are calls with signs of life, not casts. Silence alone is no death, as the bus may be away; for a copy by a host
   it is enough that its cinder-volume answers a probe. Another scheduler, which has not called, goes by the row and by
   the heartbeats. If it cannot know whether an extension was sent, it waits for longer than extensions last.
8. Until the rows are swapped, a copy whose cinder-volume died is removed before the volume is available again: should
   the process live after all, it fails at its missing row. A swap that has begun is finished if the volume has the name
   of its copy already, as it does if cinder-volume fails at that point. (A driver that renames volumes does so for
   available ones alone.)
9. Undoing: remove copies, roll the reservations back, make the row available at its size, tell the user, end the claim.
10. After the move, cinder-volume sets ``error_extending`` for any error of its driver, whatever the storage has done by
    then. So the row stays as it is, but where the driver was not called because it is not initialized.
"""

import enum
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

#: Seconds after which an extension that may not have been sent is sent again: longer than extensions last.
_DOUBT = 300.0

#: Most seconds for which the removal of a copy is waited for.
_REMOVAL = 120.0

#: The largest gap between two heartbeats of a process that lives: this part of the interval, and these seconds more.
_BEAT_PART, _BEAT_LATE = 1.1, 0.5

#: Seconds after which a command that nobody can watch is named in the log.
_UNWATCHED = 600.0

EXTENDING = "extending"
ERROR_EXTENDING = "error_extending"

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
    """The heartbeats of the services of a backend.

    ``is_up`` is whether one of them is up. ``times`` has their last heartbeats in seconds by host, on the clocks of
    these hosts, and ``now`` is the time at which they were read, on that of the database.
    """

    is_up: bool
    times: Mapping[str, float]
    now: float


class Outcome(enum.Enum):
    """The end of a command as the scheduler that sent it knows it.

    It is sent, and its call runs; or the call is over, because cinder-volume has answered, has refused it before its
    driver did anything, gives no sign of life, may not have got the command, or has not got it for certain.
    """

    SENT = "sent"
    ANSWERED = "answered"
    REFUSED = "refused"
    SILENT = "silent"
    UNCERTAIN = "uncertain"
    UNSENT = "unsent"


#: Is called right before a command is sent, and at the end of its call.
Progress = Callable[[Outcome], None]


class NotOwner(Exception):
    """Another scheduler has taken a growth over, and this one must change nothing."""


class Cinder(Protocol):
    """Rows, commands and quotas of Cinder. Writes of rows are conditional, and tell whether the row was as expected.

    All that changes anything raises :class:`NotOwner` if the growth is another scheduler's by then, but for commands:
    their outcome is ``UNSENT``.
    """

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

    def migrate(self, growth: Growth, progress: Progress) -> None:
        """Send the command to migrate the volume, and return at once."""

    def extend(self, growth: Growth, progress: Progress) -> None:
        """Send the command to extend the volume, and return at once."""

    def swap(self, growth: Growth, copy_id: str) -> None:
        """Swap the rows of a volume and its copy, as cinder-volume does at the end of a migration."""

    def resume(self, growth: Growth) -> bool:
        """Let a volume be extending again whose rows were swapped the moment before."""

    def remove(self, growth: Growth, copy_id: str) -> None:
        """Delete a copy, also again."""

    def give_back(self, growth: Growth) -> bool:
        """Make a volume that did not move available."""

    def give_back_moved(self, growth: Growth) -> bool:
        """Make a volume available in its new pool whose extension failed before its driver did anything."""

    def roll_back(self, growth: Growth) -> None:
        """Roll the reservations back, also again."""

    def tell(self, growth: Growth) -> None:
        """Tell the user that the volume cannot grow."""


class Ledger(Protocol):
    """The records of growths, for one owner."""

    def growths(self) -> Sequence[Growth]:
        """Return the growths whose next steps are to be taken."""

    def record(self, growth: Growth, step: Step, reason: str = "") -> Growth | None:
        """Record a step; return the growth with it, None if the step is not to be taken."""

    def end(self, growth: Growth) -> None:
        """End a growth."""

    def probes(self, backend: str) -> tuple[int, int]:
        """Return the numbers of the last probe of a backend and of the last one that was answered."""


@dataclass(slots=True)
class _Heartbeat:
    """The last heartbeat of a host: its time, whether it was seen when it came, and for how long no other has come."""

    time: float
    is_new: bool
    silence: float = 0.0


@dataclass(slots=True)
class _Watch:
    """The observations of a scheduler about a step of a growth. ``outcome`` is that of its own call, None before it."""

    since: float
    called: bool = False
    outcome: Outcome | None = None
    beats: dict[str, _Heartbeat] = field(default_factory=dict)
    looked_at: float | None = None
    ended: set[str] = field(default_factory=set)
    is_up: bool = True
    has_restarted: bool = False
    odd_since: float | None = None
    probe: int | None = None
    drained_at: float | None = None
    is_doubtful: bool = False
    copies: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    is_named: bool = False

    @property
    def is_in_hand(self) -> bool:
        """Whether the call of this scheduler still runs."""
        return self.called and self.outcome in (None, Outcome.SENT)

    def forget_heartbeats(self) -> None:
        """Conclude nothing from the time until now."""
        self.looked_at, self.ended, self.has_restarted = None, set(), False


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
        #: By the record of the step: another scheduler may have taken the same step again meanwhile.
        self._watches: dict[object, _Watch] = {}

    def turn(self) -> None:
        """Take the next steps. Those of a growth that fails are taken at the next turn."""
        try:
            self._turn()
        except errors.Unavailable:
            for watch in self._watches.values():
                watch.looked_at = None
            raise

    def _turn(self) -> None:
        present = self._ledger.growths()
        self._watches = {
            _record(growth): self._watches.get(_record(growth), _Watch(self._clock())) for growth in present
        }
        for growth in present:
            try:
                self._advance(growth)
            except errors.Unavailable:
                raise
            except NotOwner:
                LOG.warning("Another scheduler has taken over the growth of volume %s meanwhile", growth.volume_id)
            except Exception:  # any error of Cinder, its database or its bus
                # While the database is away, services cannot store their heartbeats.
                self._watch(growth).looked_at = None
                LOG.exception("The growth of volume %s is tried again", growth.volume_id)

    def _advance(self, growth: Growth) -> None:
        volume = self._cinder.volume(growth.volume_id)
        if volume is None:
            self._abandon(growth)
        elif growth.step is Step.CLAIMED:
            self._begin(growth)
        elif growth.step is Step.MOVING:
            self._watch_move(growth, volume)
        elif growth.step in (Step.EXTENDING, Step.SENT):
            self._watch_extension(growth, volume)
        else:
            self._undo(growth)

    def _watch(self, growth: Growth) -> _Watch:
        return self._watches[_record(growth)]

    def _begin(self, growth: Growth) -> None:
        if not self._cinder.mark(growth):
            self._give_up(growth, "its row was changed meanwhile")
        elif self._send(growth, Step.MOVING, self._cinder.migrate):
            LOG.info("Volume %s moves from %s to %s to grow", growth.volume_id, growth.source, growth.target)

    def _send(self, growth: Growth, step: Step, command: Callable[[Growth, Progress], None]) -> bool:
        """Record a step and send its command; return whether it was to be sent."""
        recorded = self._ledger.record(growth, step)
        if recorded is None:
            return False
        watch = self._watches[_record(recorded)] = _Watch(self._clock(), called=True)

        def progress(outcome: Outcome) -> None:
            watch.outcome = outcome

        try:
            command(recorded, progress)
        except Exception:
            if watch.outcome is None:
                watch.outcome = Outcome.UNSENT
            raise
        return True

    def _watch_move(self, growth: Growth, volume: Volume) -> None:
        if volume.pool == growth.target:
            self._arrive(growth, volume)
        elif volume.status != EXTENDING or volume.pool != growth.source:
            self._give_up(growth, f"its status was set to {volume.status}")
        elif volume.migration_status == "starting":
            if self._is_over(growth, self._is_undelivered):
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
            if volume.migration_status == "success" or self._is_odd(growth):
                self._send(growth, Step.EXTENDING, self._cinder.extend)
        elif volume.status == "available" and volume.previous_status == EXTENDING and not volume.migration_status:
            # Between two writes of cinder-volume, unless it ended there.
            if self._is_odd(growth):
                self._cinder.resume(growth)
        else:
            self._give_up(growth, f"its status was set to {volume.status}")

    def _is_odd(self, growth: Growth, seconds: float | None = None) -> bool:
        """Return whether the rows contradict the step for longer than they may."""
        watch = self._watch(growth)
        if watch.odd_since is None:
            watch.odd_since = self._clock()
        return self._clock() - watch.odd_since >= (_GRACE if seconds is None else seconds)

    def _is_over(self, growth: Growth, is_lost: Callable[[Growth], bool]) -> bool:
        """Return whether the command of a step is neither in a queue nor executed, though the row shows no end of it.

        ``is_lost`` tells it of a command that this scheduler has not sent, or whose call has come to no end.
        """
        watch = self._watch(growth)
        if watch.is_in_hand:
            return False
        if watch.outcome is Outcome.UNSENT:
            return True
        if watch.outcome in (Outcome.ANSWERED, Outcome.REFUSED):  # with an error that the row does not show
            return self._is_odd(growth)
        return is_lost(growth)

    def _is_undelivered(self, growth: Growth) -> bool:
        """Return whether cinder-volume will never begin to move a volume: it has answered a later probe."""
        is_drained = self._has_answered(self._watch(growth), backend_of(growth.source))
        return is_drained and self._is_odd(growth, growths.LEASE)

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
        watch.copies.update(copy.id for copy in self._cinder.copies(growth.volume_id))
        self._look(watch, backend_of(growth.source))
        if not self._is_over(growth, self._is_left):
            self._name_unwatched(growth)
        elif volume.name_id != growth.name_id:
            self._cinder.swap(growth, volume.name_id)
        else:
            self._give_up(growth, f"cinder-volume of {backend_of(growth.source)} ended while it copied the volume")

    def _is_left(self, growth: Growth) -> bool:
        """Return whether the process has ended that moved a volume."""
        watch = self._watch(growth)
        has_copies = bool(self._cinder.copies(growth.volume_id))
        if watch.called:
            return watch.has_restarted or (has_copies and self._has_answered(watch, backend_of(growth.source)))
        return watch.has_restarted and (has_copies or not watch.is_up)

    def _look(self, watch: _Watch, backend: str) -> None:
        """Look at the heartbeats of a backend: all of its services have restarted or ended if one of each is missing.

        Nothing is concluded from a time at which nobody looked, because this scheduler was frozen or Cinder's database
        away: other heartbeats may have come, or could not be stored.
        """
        beats, interval = self._cinder.beats(backend), self._cinder.beat_interval
        pause = -1.0 if watch.looked_at is None else beats.now - watch.looked_at
        watch.looked_at = beats.now
        for host, time_ in beats.times.items():
            last = watch.beats.get(host)
            if last is None or pause < 0 or (last.time != time_ and pause > interval):
                watch.beats[host] = _Heartbeat(time_, is_new=False)
                continue
            if last.time == time_:
                last.silence += min(pause, interval)
                is_missing = last.silence > interval * _BEAT_PART + _BEAT_LATE
            else:
                is_missing = last.is_new and time_ - last.time > interval * _BEAT_PART + _BEAT_LATE
                watch.beats[host] = _Heartbeat(time_, is_new=True)
            if is_missing:
                watch.ended.add(host)
        watch.is_up = beats.is_up
        watch.has_restarted = beats.times.keys() <= watch.ended

    def _name_unwatched(self, growth: Growth) -> None:
        watch = self._watch(growth)
        if not watch.is_named and growth.age >= _UNWATCHED and not watch.is_in_hand:
            watch.is_named = True
            LOG.warning(
                "Volume %s is in the hands of a cinder-volume for %.0f s that gives no sign of life to this scheduler. "
                "If it was restarted since, set the status of the volume to 'available', and its growth is undone",
                growth.volume_id,
                growth.age,
            )

    def _watch_extension(self, growth: Growth, volume: Volume) -> None:
        if volume.status == EXTENDING and volume.size_gb < growth.new_size_gb and volume.pool == growth.target:
            watch = self._watch(growth)
            self._look(watch, backend_of(growth.target))
            self._drain(watch, backend_of(growth.target))
            if self._is_over(growth, self._is_unextended):
                LOG.warning("Volume %s is extended again, in %s", growth.volume_id, growth.target)
                self._send(growth, Step.EXTENDING, self._cinder.extend)
            elif watch.outcome is Outcome.SENT and growth.step is Step.EXTENDING:
                recorded = self._ledger.record(growth, Step.SENT)
                if recorded is not None:
                    self._watches[_record(recorded)] = watch
            else:
                self._name_unwatched(growth)
            return
        if volume.status == ERROR_EXTENDING and self._watch(growth).outcome is Outcome.REFUSED:
            self._give_up(growth, f"cinder-volume of {backend_of(growth.target)} is not ready to extend it")
            return
        if volume.size_gb < growth.new_size_gb:
            # cinder-volume rolls back too, but for a driver that is not initialized.
            self._cinder.roll_back(growth)
        if self._are_removed(self._cinder.old_copies(growth.volume_id), growth):
            self._ledger.end(growth)

    def _drain(self, watch: _Watch, backend: str) -> None:
        """Wait until the command is in no queue. Its process may have ended before, or got it afterwards."""
        if watch.drained_at is None and self._has_answered(watch, backend):
            watch.drained_at, watch.is_doubtful = self._clock(), watch.has_restarted
            watch.forget_heartbeats()

    def _is_unextended(self, growth: Growth) -> bool:
        """Return whether no process extends a volume, and none will."""
        watch = self._watch(growth)
        if watch.drained_at is None or not watch.is_up:
            return False
        was_unsent = watch.outcome is Outcome.UNCERTAIN or (not watch.called and growth.step is Step.EXTENDING)
        is_doubtful = was_unsent or watch.is_doubtful
        return watch.has_restarted or (is_doubtful and self._clock() - watch.drained_at >= _DOUBT)

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
                self._cinder.remove(growth, copy.id)
                watch.removed.add(copy.id)
        return False

    def _give_up(self, growth: Growth, reason: str) -> None:
        recorded = self._ledger.record(growth, Step.UNDOING, reason)
        if recorded is not None:
            LOG.warning("Volume %s does not grow: %s", growth.volume_id, reason)
            self._watches[_record(recorded)] = _Watch(self._clock(), copies=self._watch(growth).copies)

    def _undo(self, growth: Growth) -> None:
        remains = (*self._cinder.copies(growth.volume_id), *self._cinder.old_copies(growth.volume_id))
        copies = {copy.id: copy for copy in remains}
        # cinder-volume keeps a copy if it fails after the copy was complete, but the volume is where it was.
        for copy_id in self._watch(growth).copies - copies.keys():
            kept = self._cinder.volume(copy_id)
            if kept is not None and kept.pool == growth.target:
                copies[copy_id] = Copy(copy_id, kept.status)
        if not self._are_removed(copies.values(), growth):
            return
        self._cinder.roll_back(growth)
        if self._cinder.give_back(growth) or self._cinder.give_back_moved(growth):
            self._cinder.tell(growth)
        self._ledger.end(growth)

    def _abandon(self, growth: Growth) -> None:
        """End the growth of a volume that was deleted."""
        if not self._are_removed(self._cinder.copies(growth.volume_id), growth):
            return
        self._cinder.roll_back(growth)
        self._ledger.end(growth)


def _record(growth: Growth) -> tuple[object, ...]:
    """Return the identity of the record of a step."""
    return growth.id, growth.step, growth.changed_at
