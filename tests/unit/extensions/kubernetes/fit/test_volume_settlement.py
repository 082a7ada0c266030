# SPDX-License-Identifier: Apache-2.0
"""When figures include a volume: models of external-provisioner, a ledger that lags behind, and volumes of others."""

import datetime
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.extensions.kubernetes.fit.capacity_claims import FiguresVersion
from tonnage.extensions.kubernetes.fit.volume_settlement import VolumeSettlement

POOL = ("fast", "n1")
NAME = "storage/csisc-x7k2p"
NOON = datetime.datetime.fromisoformat("2026-01-02T12:00:00")
SETTLING, LIFETIME = datetime.timedelta(seconds=120), datetime.timedelta(seconds=180)
NEVER = datetime.timedelta(days=1)


def after(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def settlement(settling: datetime.timedelta = SETTLING, *, seen: int) -> VolumeSettlement:
    return VolumeSettlement(settling, LIFETIME, {NAME: seen})


def figures(version: int, expires: float = 180.0, name: str | None = NAME) -> dict[tuple[str, str], FiguresVersion]:
    return {POOL: FiguresVersion(0, after(expires), name, None if name is None else version)}


def test_figures_that_somebody_writes_include_a_volume_after_three_writes() -> None:
    volume = VolumeSettlement(SETTLING, LIFETIME)
    included = []
    for version in (1, 2, 3, 3, 4):
        volume.update({POOL: FiguresVersion(version, after(version))}, NOON)
        included.append(volume.is_included)
    assert included == [False, False, False, False, True]
    volume.update({}, NOON)
    assert not volume.is_included


def test_the_figures_of_all_pools_on_the_disks_have_to_include_a_volume() -> None:
    """The shared capacity is the largest one, and a slow writer may still report that from before the volume."""
    volume, slow = VolumeSettlement(SETTLING, LIFETIME), ("safe", "n1")
    included = []
    for version, slow_version in ((1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 3), (7, 4)):
        volume.update(
            {
                POOL: FiguresVersion(version, after(version)),
                slow: FiguresVersion(slow_version, after(slow_version)),
            },
            NOON,
        )
        included.append(volume.is_included)
    assert included == [False] * 6 + [True]


def test_two_writes_of_an_object_after_the_volume_are_enough() -> None:
    volume = settlement(NEVER, seen=7)
    included = []
    for version in (5, 6, 7, 8, 8, 9):
        volume.update(figures(version), NOON)
        included.append(volume.is_included)
    assert included == [False] * 5 + [True]


def test_a_renewed_expiry_is_no_write_and_a_new_object_starts_again() -> None:
    volume = settlement(NEVER, seen=7)
    for step in range(10):
        volume.update(figures(7, 180 + step), after(step))
    assert not volume.is_included
    for name, included in ((NAME, True), ("storage/csisc-new", False), (NAME, False)):
        volume.update(figures(8, name=name), NOON)
        volume.update(figures(9, name=name), NOON)
        assert volume.is_included is included
    unread = VolumeSettlement(NEVER, LIFETIME)
    for version in range(9):
        unread.update(figures(version), NOON)
    assert not unread.is_included, "the version at the time of the volume is not known"


@pytest.mark.parametrize(("step", "included"), [(10, True), (30, True), (31, False), (90, False)])
def test_a_provisioner_that_has_worked_for_the_settling_time_has_looked(step: int, included: bool) -> None:
    volume = settlement(seen=7)
    for seconds in range(0, 400, step):
        volume.update(figures(7, seconds + 180), after(seconds))
        if seconds < 120:
            assert not volume.is_included
    assert volume.is_included is included


def test_the_figures_of_a_provisioner_that_has_died_do_not_include_a_volume() -> None:
    volume = settlement(seen=7)
    for seconds in range(0, 180, 10):
        volume.update(figures(7, 180), after(seconds))
    volume.update({}, after(181))
    assert not volume.is_included
    volume.update(figures(7, 400), after(220))
    assert not volume.is_included


@dataclass
class Object:
    """An object with all versions that it had: free capacity, and the moment at which the plug-in was asked."""

    versions: list[tuple[int, int]]

    @property
    def version(self) -> int:
        return len(self.versions) - 1


@dataclass
class Worker:
    """A thread of external-provisioner, at one of its steps: look at the object, ask the plug-in, write."""

    looked: int | None = None
    answer: tuple[int, int] | None = None

    def step(self, capacity_object: Object, cached: int, free: int, moment: int) -> None:
        if self.looked is None:
            self.looked = cached
        elif self.answer is None:
            self.answer = free, moment
        else:
            is_changed = self.answer[0] != capacity_object.versions[self.looked][0]
            if is_changed and self.looked == capacity_object.version:
                capacity_object.versions.append(self.answer)
            self.looked = self.answer = None


@given(st.lists(st.integers(0, 11), min_size=20, max_size=120), st.integers(0, 2**16))
def test_two_writes_are_never_too_few(steps: list[int], seed: int) -> None:
    """The plug-in is asked after the volume was made, whatever the order of steps."""
    lots, free = random.Random(seed), 100
    capacity_object, workers = Object([(free, 0)]), [Worker(), Worker()]
    made: int | None = None
    volume: VolumeSettlement | None = None
    ledger = 0
    for moment, step in enumerate(steps, 1):
        match step:
            case 0 | 1 | 2 | 3 | 4 | 5:
                cached = lots.choice([capacity_object.version, capacity_object.version, ledger])
                workers[step % 2].step(capacity_object, cached, free, moment)
            case 6 | 7:
                free += lots.choice([-3, 3])
            case 8:
                if made is None:
                    made, free = moment, free - 3
                elif volume is None:
                    volume = settlement(NEVER, seen=capacity_object.version)
            case _:
                ledger = lots.randint(ledger, capacity_object.version)
                if volume is not None and made is not None:
                    volume.update(figures(ledger), NOON)
                    if volume.is_included:
                        assert capacity_object.versions[ledger][1] > made


@dataclass
class Provisioner:
    """external-provisioner: it asks when it starts and every minute, and writes within ten seconds."""

    lots: random.Random
    #: The time of each write or, if the figure is the same, of the comparison, and of its question.
    done: list[tuple[int, int]] = field(default_factory=list)
    alive_since: int | None = None
    next_question: int = 0
    pending: tuple[int, int] | None = None

    def step(self, now: int, alive: bool) -> None:
        if not alive:
            self.alive_since = self.pending = None
            return
        if self.alive_since is None:
            self.alive_since = self.next_question = now
        if self.pending is not None and self.pending[0] <= now:
            self.done.append(self.pending)
            self.pending = None
        if now >= self.next_question and self.pending is None:
            self.pending = now + self.lots.choice([0, 5, 10]), now
            self.next_question = now + 60

    def newest_question(self, at: int) -> int:
        """Return the time of the last question whose result an object shows at a time."""
        return max((asked for written, asked in self.done if written <= at), default=-1)


@given(
    st.lists(st.tuples(st.integers(4, 60), st.integers(1, 80)), min_size=1, max_size=6),
    st.integers(0, 40),
    st.integers(0, 2**16),
)
def test_the_settling_time_is_never_too_short(lives: list[tuple[int, int]], made_at: int, seed: int) -> None:
    """A provisioner lives and is dead, in steps of five seconds; the watch and the state of owners lag behind."""
    lots, provisioner = random.Random(seed), Provisioner(random.Random(seed))
    alive = [is_alive for life, death in lives for is_alive in [True] * life + [False] * death]
    made = made_at * 5
    volume, expires_at, shown, lag = settlement(seen=0), 180, -1, 0
    for tick, is_alive in enumerate(alive):
        now = tick * 5
        provisioner.step(now, is_alive)
        lag = min(30, lag + 5) if lots.random() < 0.5 else 0
        if lots.random() < 0.7:
            shown = max(shown, provisioner.newest_question(now - lag))
            if any(alive[max(0, tick - 4) : tick + 1]):
                expires_at = now + 180
        if now >= made and lots.random() < 0.7:
            volume.update(figures(0, expires_at) if expires_at > now else {}, after(now))
            if volume.is_included:
                assert shown >= made, f"the figures at {now} are of {shown}, the volume of {made}"
