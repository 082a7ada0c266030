# SPDX-License-Identifier: Apache-2.0
"""When figures include a volume: models of external-provisioner, a ledger that lags behind, and volumes of others."""

import datetime
import random
from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from tonnage.extensions.kubernetes.fit.capacity_claims import FiguresVersion
from tonnage.extensions.kubernetes.fit.volume_settlement import VolumeSettlement

POOL = ("fast", "n1")
NAME = "storage/csisc-x7k2p"
NOON = datetime.datetime.fromisoformat("2026-01-02T12:00:00")


def after(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def settlement(*, seen: int) -> VolumeSettlement:
    return VolumeSettlement({NAME: seen})


def figures(
    version: int, expires: float = 180.0, name: str = NAME, size: int | None = None
) -> dict[tuple[str, str], FiguresVersion]:
    """Return the figures of a version of an object, by default of a size that no other version has."""
    return {POOL: FiguresVersion(0, after(expires), name, version, (version if size is None else size, None))}


def test_figures_that_somebody_writes_include_a_volume_after_three_writes() -> None:
    volume = VolumeSettlement()
    included = []
    for version in (1, 2, 3, 3, 4):
        volume.update({POOL: FiguresVersion(version, after(version))}, NOON)
        included.append(volume.is_included)
    assert included == [False, False, False, False, True]
    volume.update({}, NOON)
    assert not volume.is_included


def test_the_figures_of_all_pools_on_the_disks_have_to_include_a_volume() -> None:
    """The shared capacity is the largest one, and a slow writer may still report that from before the volume."""
    volume, slow = VolumeSettlement(), ("safe", "n1")
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
    volume = settlement(seen=7)
    included = []
    for version in (5, 6, 7, 8, 8, 9):
        volume.update(figures(version), NOON)
        included.append(volume.is_included)
    assert included == [False] * 5 + [True]


def test_a_renewed_expiry_is_no_write_and_a_new_object_starts_again() -> None:
    volume = settlement(seen=7)
    for step in range(10):
        volume.update(figures(7, 180 + step), after(step))
    assert not volume.is_included
    for name, included in ((NAME, True), ("storage/csisc-new", False), (NAME, False)):
        volume.update(figures(8, name=name), NOON)
        volume.update(figures(9, name=name), NOON)
        assert volume.is_included is included
    unread = VolumeSettlement()
    for version in range(9):
        unread.update(figures(version), NOON)
    assert not unread.is_included, "the version at the time of the volume is not known"


def test_a_version_with_the_same_sizes_may_be_of_somebody_else() -> None:
    """Its labels may have been changed. A provisioner writes other sizes."""
    volume = settlement(seen=7)
    for version, size in ((7, 10), (8, 10), (9, 4), (10, 4)):
        volume.update(figures(version, size=size), NOON)
        assert not volume.is_included
    volume.update(figures(11, size=5), NOON)
    assert volume.is_included


def test_no_time_is_enough_for_figures_that_stay_as_they_are() -> None:
    volume = settlement(seen=7)
    for seconds in range(0, 86400, 10):
        volume.update(figures(7, seconds + 180), after(seconds))
    assert not volume.is_included


def test_a_write_after_the_figure_was_lowered_is_enough() -> None:
    volume = settlement(seen=7)
    volume.update(figures(7), NOON)
    volume.ask(NAME, 8, NOON)
    # A lowered figure is read as the one before.
    volume.update(figures(7), NOON)
    assert not volume.is_included
    volume.update(figures(9, size=7), NOON)
    assert volume.is_included, "the same size, which was asked for again"
    volume.update(figures(9, name="storage/csisc-new"), NOON)
    assert not volume.is_included


def test_a_provisioner_is_asked_when_its_figures_stay_as_they_are() -> None:
    volume = settlement(seen=7)
    asked: dict[int, list[str]] = {}
    for seconds in range(60):
        volume.update(figures(7 if seconds < 5 else 8, seconds + 180), after(seconds))
        if names := volume.objects_to_ask(after(seconds)):
            asked[seconds] = names
            # The first attempt fails.
            volume.ask(NAME, None if len(asked) == 1 else 9, after(seconds))
    assert asked == {15: [NAME], 45: [NAME]}


def test_nobody_is_asked_for_figures_that_include_the_volume_or_are_of_no_provisioner() -> None:
    volume = settlement(seen=7)
    for version in (7, 8, 9):
        volume.update(figures(version), NOON)
    assert volume.objects_to_ask(after(60)) == []
    written = VolumeSettlement()
    written.update({POOL: FiguresVersion(1, after(180))}, NOON)
    assert (written.objects_to_ask(after(60)), written.objects_without_version()) == ([], set())


def test_an_object_that_came_later_is_counted_from_its_version_at_that_time() -> None:
    volume = VolumeSettlement()
    volume.update(figures(7), NOON)
    assert volume.objects_without_version() == {NAME}
    volume.object_versions[NAME] = 8
    assert volume.objects_without_version() == set()
    included = []
    for version in (8, 9, 10):
        volume.update(figures(version), NOON)
        included.append(volume.is_included)
    assert included == [False, False, True]


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
                    volume = settlement(seen=capacity_object.version)
            case _:
                ledger = lots.randint(ledger, capacity_object.version)
                if volume is not None and made is not None:
                    volume.update(figures(ledger), NOON)
                    if volume.is_included:
                        assert capacity_object.versions[ledger][1] > made


@dataclass
class Version:
    """A version of an object: its figure, the moment of its question, and whether the figure is a lowered one."""

    capacity: int
    asked_at: int
    is_lowered: bool = False


@dataclass
class Provisioner:
    """external-provisioner with one worker and one object of interest, in steps of a second.

    The object waits in the queue behind others, each of which takes a second (``--kube-api-capacity-qps=1``). The
    worker asks, waits for the turn of its write, and writes if the figure differs from that at which it looked. It
    looks at a cache that lags behind. A question or a write that fails is tried again later, up to 300 seconds.
    """

    lots: random.Random
    free: int
    versions: list[Version]
    cached: int = 0
    queue: list[int] = field(default_factory=list)
    #: The work at hand: the end of its question, the version looked at, and the answer.
    work: tuple[int, int, Version] | None = None
    retries: list[int] = field(default_factory=list)
    delay: int = 1
    busy_until: int = 0
    answers: bool = True

    def step(self, now: int, others: int) -> None:
        """Do the work of a second. ``others`` is the number of other objects that each poll has to write."""
        self.cached = self.lots.randint(self.cached, len(self.versions) - 1)
        if now % 60 == 0:
            # An object that waits in the queue is not put there again.
            missing = max(0, others - self.queue.count(-1))
            place = self.lots.randint(0, missing)
            self.queue += [-1] * place + [now] + [-1] * (missing - place)
        self.queue += [now for due in self.retries if due <= now]
        self.retries = [due for due in self.retries if due > now]
        if self.work is not None:
            self._write(now)
        elif self.queue and now >= self.busy_until and self.queue.pop(0) >= 0:
            if self.answers:
                self.work = now + self.lots.choice([0, 1, 10]), self.cached, Version(self.free, now)
            else:
                self._fail(now + 10)

    def _write(self, now: int) -> None:
        assert self.work is not None
        end, looked, answer = self.work
        if now < end:
            return
        self.work = None
        if self.versions[looked].capacity == answer.capacity:
            return
        if looked == len(self.versions) - 1:
            self.versions.append(answer)
            self.delay = 1
        else:
            self._fail(now)

    def _fail(self, now: int) -> None:
        self.busy_until = now
        self.retries.append(now + self.delay)
        self.delay = min(300, self.delay * 2)

    def make_volume(self, size: int) -> None:
        """Make a volume, and put the object into the queue."""
        self.free -= size
        self.queue.append(0)

    def lower(self) -> int:
        """Lower the figure, unless it is, and return the version since which it is."""
        newest = self.versions[-1]
        if not newest.is_lowered:
            self.versions.append(Version(newest.capacity - 1, newest.asked_at, is_lowered=True))
        return len(self.versions) - 1

    def shown(self, version: int) -> int:
        """Return the version that readers see at a version: that before its figure was lowered."""
        return max(at for at, each in enumerate(self.versions[: version + 1]) if not each.is_lowered)


@given(
    st.integers(0, 150),
    st.integers(0, 100),
    st.sampled_from([0, 6]),
    st.lists(st.tuples(st.booleans(), st.integers(20, 400)), max_size=4),
    st.integers(0, 2**16),
)
@example(others=150, made_at=1, size=6, spells=[], seed=0)
@example(others=0, made_at=1, size=6, spells=[(False, 400)], seed=0)
def test_a_claim_ends_when_the_object_contains_the_volume_and_not_before(
    others: int, made_at: int, size: int, spells: list[tuple[bool, int]], seed: int
) -> None:
    """Queues, rates, questions that fail for some time, others' volumes; and figures that a volume does not change.

    In the end the provisioner works, and the claim ends.
    """
    lots = random.Random(seed)
    provisioner = Provisioner(random.Random(seed), 1000, [Version(1000, -1)])
    answering = [answers for answers, seconds in spells for _ in range(seconds)]
    volume: VolumeSettlement | None = None
    ledger = 0
    for now in range(len(answering) + made_at + 1500):
        provisioner.answers = now >= len(answering) or answering[now]
        provisioner.step(now, others)
        if now < len(answering) + made_at and lots.random() < 0.02:
            provisioner.make_volume(lots.choice([-3, 3]))
        if now == made_at:
            provisioner.make_volume(size)
        if now < made_at or lots.random() < 0.5:
            continue
        if volume is None:
            volume = settlement(seen=len(provisioner.versions) - 1)
        ledger = lots.randint(ledger, len(provisioner.versions) - 1)
        shown = provisioner.shown(ledger)
        volume.update(figures(shown, size=provisioner.versions[shown].capacity), after(now))
        if volume.is_included:
            asked_at = provisioner.versions[shown].asked_at
            assert asked_at >= made_at, f"the figure at {now} is of {asked_at}, the volume of {made_at}"
            return
        for name in volume.objects_to_ask(after(now)):
            volume.ask(name, provisioner.lower(), after(now))
    raise AssertionError("the claim does not end")
