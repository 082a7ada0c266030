# SPDX-License-Identifier: Apache-2.0
"""The steps of volumes that move to grow; at each of them a scheduler is killed or frozen, or cinder-volume killed."""

import datetime
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tonnage.capacity import errors
from tonnage.extensions.cinder.growth import growth_steps
from tonnage.extensions.cinder.growth.growth_steps import (
    Beats,
    Copy,
    Growing,
    NotOwner,
    Outcome,
    Progress,
    Volume,
)
from tonnage.extensions.cinder.ledger import growths
from tonnage.extensions.cinder.ledger.growths import Growth, Step

SOURCE, TARGET = "real@b1#a", "real@b2#a"
GROWTH = Growth(
    id="claim", volume_id="v", request_id="req", project_id="p", user_id="u", source=SOURCE, target=TARGET, name_id="v",
    size_gb=1, new_size_gb=3, reservations=("r",),
)  # fmt: skip
BEGIN = Volume(SOURCE, 1, "extending", "", "available", "v")
WHERE_IT_WAS = (SOURCE, 1, "available", "", "")

#: The row of a volume that its user extends once more, where it is.
AGAIN = ("extending", "", "available")


class Killed(BaseException):
    """The scheduler is killed here."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Command:
    """A command that cinder-volume executes until ``ends_at``."""

    name: str
    progress: Progress
    ends_at: float


@dataclass
class Model:
    """Ledger, Cinder and storage, with one volume.

    ``kill_at`` is the number of the moment at which a scheduler dies, ``error_at`` that at which it meets an error, and
    ``freeze_at`` that at which it is frozen for ``freeze`` seconds, while another one runs. ``fails`` lets the copy
    fail, and with ``refuses`` cinder-volume extends nothing. ``wrongs`` has what must never happen.
    """

    clock: Clock
    fails: bool = False
    refuses: bool = False
    copy_seconds: float = 0.0
    extend_seconds: float = 0.0
    is_owner: bool = True
    kill_at: int = 0
    error_at: int = 0
    freeze_at: int = 0
    freeze: float = 0.0
    is_frozen: bool = False
    meanwhile: Callable[[], None] = lambda: None
    calls: int = 0
    record_: Growth | None = GROWTH
    records: int = 0
    owner: str = "first"
    owners: int = 0
    renewed_at: float = 0.0
    since: float = 0.0
    row: Volume | None = BEGIN
    copy_rows: dict[str, str] = field(default_factory=dict)
    old_rows: dict[str, str] = field(default_factory=dict)
    kept: Volume | None = None
    reserved: bool = True
    told: int = 0
    probed: int = 0
    answered: int = 0
    beat: float = 0.0
    is_up: bool = True
    beat_interval: float = 10.0
    commands: list[tuple[str, Progress]] = field(default_factory=list)
    running: list[Command] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    wrongs: list[str] = field(default_factory=list)

    def moment(self) -> None:
        """Let the scheduler be killed or frozen here."""
        self.calls += 1
        if self.calls == self.kill_at:
            raise Killed
        if self.calls == self.error_at:
            raise OSError("no database")
        if self.calls == self.freeze_at and not self.is_frozen:
            self.is_frozen = True
            until = self.clock.now + self.freeze
            play(self, scheduler(self, "other"), int(self.freeze / 2))
            self.meanwhile()
            while self.clock.now < until:
                self.pass_time()

    def pass_time(self, seconds: float = 2.0) -> None:
        """Let time pass, with the heartbeats of cinder-volume."""
        self.clock.now += seconds
        if self.is_up and self.clock.now - self.beat >= self.beat_interval:
            self.beat = self.clock.now

    def _set(self, **values: object) -> None:
        assert self.row is not None
        self.row = self.row._replace(**values)

    # The ledger

    def renew(self, growth: Growth, owner: str) -> bool:
        is_owner = self.is_owner and self.owner == owner and self.record_ is not None
        if not is_owner or self.record_ is None or self.record_.changed_at != growth.changed_at:
            return False
        self.renewed_at = self.clock()
        return True

    def growths(self, owner: str) -> list[Growth]:
        if self.record_ is None or (self.owner != owner and self.clock() - self.renewed_at < growths.LEASE):
            return []
        self.owner, self.renewed_at = owner, self.clock()
        return [replace(self.record_, age=self.clock() - self.since)]

    def record(self, growth: Growth, owner: str, step: Step, reason: str = "") -> Growth | None:
        if not self.renew(growth, owner):
            return None
        self.since = self.clock()
        self.records += 1
        moment = datetime.datetime(2000, 1, 1, microsecond=self.records)  # noqa: DTZ001  (in UTC, as in the ledger)
        self.record_ = replace(growth, step=step, reason=reason, changed_at=moment)
        return self.record_

    # cinder-volume

    def volume(self, volume_id: str) -> Volume | None:
        return self.row if volume_id == "v" else self.kept

    def probe(self, backend: str) -> None:
        self.probed += 1
        self.commands.append(("probe", lambda _: None))

    def work(self) -> None:
        """Begin all commands in the queue, and end those whose time has come."""
        while self.commands:
            name, progress = self.commands.pop(0)
            self._begin(name, progress)
        for command in [command for command in self.running if command.ends_at <= self.clock.now]:
            self.running.remove(command)
            self._end(command.name)
            command.progress(Outcome.ANSWERED)

    def _begin(self, name: str, progress: Progress) -> None:
        if name == "probe":
            self.answered = self.probed
        elif name == "remove":
            self.copy_rows.clear()
            self.old_rows.clear()
            self.kept = None
        elif name == "migrate":
            if self.record_ is None or self.record_.step is not Step.MOVING or self.row is None:
                self.wrongs.append(f"a copy of {self.row} begins without a claim")
            else:
                self._set(migration_status="migrating")
            self.running.append(Command(name, progress, self.clock.now + self.copy_seconds))
        elif self.refuses:
            self._set(status="error_extending")
            progress(Outcome.REFUSED)
        else:
            if any(command.name == "extend" for command in self.running):
                self.wrongs.append("two extensions run at a time")
            if self.row is not None and (self.row.status, self.row.pool) != ("extending", TARGET):
                self.wrongs.append(f"an extension of {self.row} begins")
            self.running.append(Command(name, progress, self.clock.now + self.extend_seconds))

    def _end(self, name: str) -> None:
        if self.row is None:
            return
        if name == "extend":
            self.reserved = False
            self._set(size_gb=3, status="available")
        elif self.fails:
            self._set(migration_status="error")
        else:
            self._set(pool=TARGET, migration_status="success")


class View:
    """Ledger and Cinder as one scheduler has them."""

    def __init__(self, model: Model, owner: str) -> None:
        self.model, self.owner, self.beat_interval = model, owner, model.beat_interval

    def _change(self, growth: Growth, effect: Callable[[], None]) -> None:
        self.model.moment()
        if not self.model.renew(growth, self.owner):
            raise NotOwner
        effect()
        self.model.moment()

    # The ledger

    def growths(self) -> list[Growth]:
        return self.model.growths(self.owner)

    def record(self, growth: Growth, step: Step, reason: str = "") -> Growth | None:
        self.model.moment()
        recorded = self.model.record(growth, self.owner, step, reason)
        self.model.moment()
        return recorded

    def end(self, growth: Growth) -> None:
        self.model.moment()
        if self.model.renew(growth, self.owner):
            self.model.record_ = None
        self.model.moment()

    def probes(self, backend: str) -> tuple[int, int]:
        return self.model.probed, self.model.answered

    # Cinder's rows

    def volume(self, volume_id: str) -> Volume | None:
        return self.model.volume(volume_id)

    def copies(self, volume_id: str) -> list[Copy]:
        return [Copy(*item) for item in self.model.copy_rows.items()]

    def old_copies(self, volume_id: str) -> list[Copy]:
        return [Copy(*item) for item in self.model.old_rows.items()]

    def beats(self, backend: str) -> Beats:
        return Beats(self.model.is_up, {"real": self.model.beat}, self.model.clock.now)

    def _write(self, growth: Growth, is_expected: Callable[[Volume], bool], **values: object) -> bool:
        is_written = False

        def effect() -> None:
            nonlocal is_written
            is_written = self.model.row is not None and is_expected(self.model.row)
            if is_written:
                self.model._set(**values)

        self._change(growth, effect)
        return is_written

    def mark(self, growth: Growth) -> bool:
        return self._write(growth, _stays, migration_status="starting", previous_status="extending")

    def give_back(self, growth: Growth) -> bool:
        values = {"status": "available", "migration_status": "", "previous_status": "", "name_id": "v"}
        return self._write(growth, _stays, **values)

    def give_back_moved(self, growth: Growth) -> bool:
        return self._write(growth, lambda row: row[:3] == (TARGET, 1, "error_extending"), status="available")

    def resume(self, growth: Growth) -> bool:
        return self._write(
            growth, lambda row: row.status == "available", status="extending", migration_status="success"
        )

    def swap(self, growth: Growth, copy_id: str) -> None:
        def effect() -> None:
            if self.model.row is not None and self.model.row.pool == TARGET:
                self.model.wrongs.append("rows are swapped twice")
            self.model.copy_rows.clear()
            self.model.old_rows["copy"] = "deleting"
            self.model._set(pool=TARGET, migration_status="success")

        self._change(growth, effect)

    # Commands, quotas and messages

    def _send(self, command: str, growth: Growth, progress: Progress) -> None:
        self.model.moment()
        if not self.model.renew(growth, self.owner):
            progress(Outcome.UNSENT)
            return
        progress(Outcome.SENT)
        self.model.commands.append((command, progress))
        self.model.sent.append(command)
        self.model.moment()

    def migrate(self, growth: Growth, progress: Progress) -> None:
        self._send("migrate", growth, progress)

    def extend(self, growth: Growth, progress: Progress) -> None:
        self._send("extend", growth, progress)

    def remove(self, growth: Growth, copy_id: str) -> None:
        def effect() -> None:
            self.model.commands.append(("remove", lambda _: None))
            self.model.sent.append("remove")

        self._change(growth, effect)

    def roll_back(self, growth: Growth) -> None:
        def effect() -> None:
            self.model.reserved = False

        self._change(growth, effect)

    def tell(self, growth: Growth) -> None:
        self.model.moment()
        self.model.told += 1
        self.model.moment()


def _stays(row: Volume) -> bool:
    return row[:3] == (SOURCE, 1, "extending")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def scheduler(model: Model, owner: str = "") -> Growing:
    model.owners += 1
    view = View(model, owner or ("first" if model.owners == 1 else f"scheduler {model.owners}"))
    return Growing(view, view, model.probe, model.clock)


def play(model: Model, machine: Growing, turns: int = 400, *, works: bool = True) -> Growing:
    """Take turns of 2 seconds until the growth has ended. A scheduler that is killed is replaced."""
    for _ in range(turns):
        if model.record_ is None:
            break
        try:
            machine.turn()
        except Killed:
            machine = scheduler(model)
        if works:
            model.work()
        model.pass_time()
    return machine


def rest(model: Model) -> tuple[object, ...]:
    """Return the place, size and status of the volume, once nothing of the growth is left."""
    assert model.record_ is None
    assert not model.reserved
    assert not model.copy_rows
    assert not model.old_rows
    assert model.row is not None
    return model.row[:5]


def test_a_volume_moves_and_is_extended(clock: Clock) -> None:
    model = Model(clock)
    play(model, scheduler(model))
    assert rest(model) == (TARGET, 3, "available", "success", "extending")
    assert (model.sent, model.told) == (["migrate", "extend"], 0)


def test_a_copy_that_fails_leaves_the_volume_as_it_was(clock: Clock) -> None:
    model = Model(clock, fails=True)
    play(model, scheduler(model))
    assert rest(model) == WHERE_IT_WAS
    assert (model.sent, model.told) == (["migrate"], 1)


@pytest.mark.parametrize("turns", [0, 1])
def test_a_scheduler_that_does_not_own_a_growth_any_more_sends_nothing(clock: Clock, turns: int) -> None:
    model = Model(clock)
    machine = play(model, scheduler(model), turns)
    model.is_owner = False
    play(model, machine, 10)
    assert model.sent == ["migrate"][:turns]


def moments(**conditions: object) -> int:
    """Return the number of moments at which a scheduler may be killed or frozen."""
    model = Model(Clock(), **conditions)  # type: ignore[arg-type]
    play(model, scheduler(model))
    return model.calls


@pytest.mark.parametrize("kill_at", range(1, moments(fails=False) + 1))
@pytest.mark.parametrize("seconds", [0, 20, 200])
def test_a_scheduler_that_is_killed_at_any_step_is_replaced(clock: Clock, kill_at: int, seconds: float) -> None:
    """Nothing runs twice, also if it takes longer than another scheduler waits before it takes over."""
    model = Model(clock, kill_at=kill_at, copy_seconds=seconds, extend_seconds=seconds)
    play(model, scheduler(model), 2000)
    assert model.wrongs == []
    assert rest(model)[:3] in ((TARGET, 3, "available"), (SOURCE, 1, "available"))
    assert model.sent.count("migrate") <= 1
    assert model.sent.count("extend") <= 1
    assert model.told == (1 if rest(model)[0] == SOURCE else 0)


@pytest.mark.parametrize("kill_at", range(1, moments(fails=True) + 1))
def test_a_scheduler_that_is_killed_while_a_growth_is_undone_is_replaced(clock: Clock, kill_at: int) -> None:
    model = Model(clock, fails=True, kill_at=kill_at)
    play(model, scheduler(model))
    assert model.wrongs == []
    assert rest(model) == WHERE_IT_WAS
    assert model.told <= 1


@pytest.mark.parametrize("fails", [False, True], ids=["copied", "not copied"])
@pytest.mark.parametrize("error_at", range(1, max(moments(fails=False), moments(fails=True)) + 1))
def test_a_scheduler_that_meets_an_error_at_any_step_goes_on(clock: Clock, error_at: int, fails: bool) -> None:
    model = Model(clock, fails=fails, error_at=error_at)
    play(model, scheduler(model))
    assert model.wrongs == []
    assert rest(model)[:3] in ((TARGET, 3, "available"), (SOURCE, 1, "available"))
    assert model.sent.count("migrate") <= 1


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("freeze", [10, 20, 40, 400, 1000])
@pytest.mark.parametrize("seconds", [0, 30, 200])
def test_a_scheduler_that_was_frozen_changes_nothing_that_another_one_has_taken_over(
    fails: bool, freeze: float, seconds: float
) -> None:
    """Frozen processes go on where they were, however late: SIGSTOP, or a virtual machine that is paused."""
    for freeze_at in range(1, moments(fails=fails, copy_seconds=seconds, extend_seconds=seconds) + 1):
        model = Model(Clock(), fails, copy_seconds=seconds, extend_seconds=seconds, freeze_at=freeze_at, freeze=freeze)
        play(model, scheduler(model), 2000)
        assert model.is_frozen
        assert model.wrongs == [], freeze_at
        assert rest(model)[:3] in ((TARGET, 3, "available"), (SOURCE, 1, "available")), freeze_at
        assert model.sent.count("migrate") <= 1, freeze_at
        assert model.sent.count("extend") <= 1, freeze_at


@pytest.mark.parametrize("fails", [False, True])
def test_a_scheduler_that_was_frozen_leaves_a_later_extension_alone(fails: bool) -> None:
    def extend_again() -> None:
        if model.record_ is None and model.row is not None and model.row.status == "available":
            model._set(status=AGAIN[0], migration_status=AGAIN[1], previous_status=AGAIN[2], size_gb=1, pool=SOURCE)
            later.append(model.row)

    later: list[Volume] = []
    for freeze_at in range(1, moments(fails=fails) + 1):
        model = Model(Clock(), fails, freeze_at=freeze_at, freeze=400)
        model.meanwhile = extend_again
        later.clear()
        play(model, scheduler(model), 30)
        assert later == [] or model.row == later[0], freeze_at
        assert model.wrongs == [], freeze_at


@pytest.mark.parametrize("kill_at", range(1, moments(fails=False) + 1))
def test_a_second_scheduler_may_be_frozen_too(kill_at: int) -> None:
    for freeze_at in range(kill_at + 1, kill_at + 30):
        model = Model(Clock(), kill_at=kill_at, freeze_at=freeze_at, freeze=40, extend_seconds=30)
        play(model, scheduler(model), 2000)
        assert model.wrongs == [], freeze_at
        assert rest(model)[:3] in ((TARGET, 3, "available"), (SOURCE, 1, "available")), freeze_at
        assert model.sent.count("migrate") <= 1, freeze_at
        assert model.sent.count("extend") <= 1, freeze_at


def test_a_command_that_waits_in_the_queue_is_waited_for(clock: Clock) -> None:
    """The call gives no sign of life before it has begun."""
    model = Model(clock)
    machine = play(model, scheduler(model), 2, works=False)
    [(_, ended)] = model.commands
    ended(False)
    machine = play(model, machine, 100, works=False)
    assert model.probed > 0
    assert model.record_ is not None
    assert model.record_.step is Step.MOVING
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert model.sent.count("migrate") == 1


def moving(clock: Clock, status: str = "migrating") -> tuple[Model, Growing]:
    """Return the model while cinder-volume copies the volume."""
    model = Model(clock)
    machine = play(model, scheduler(model), 2, works=False)
    model._set(migration_status=status)
    model.copy_rows["copy"] = "available"
    return model, machine


def test_a_copy_is_removed_before_the_volume_of_a_dead_service_is_available(clock: Clock) -> None:
    model, machine = moving(clock)
    [(_, ended)] = model.commands
    model.commands.clear()
    machine = play(model, machine, 20, works=False)
    ended(False)  # the service is killed, and starts again
    clock.now += 15
    for _ in range(4):
        machine = play(model, machine, 2, works=False)
    assert model.sent == ["migrate", "remove"]
    assert model.row is not None
    assert model.row.status == "extending"
    play(model, machine)
    assert rest(model) == WHERE_IT_WAS


@pytest.mark.parametrize("has_answered", [False, True])
def test_a_silent_service_that_answers_a_probe_copies_no_volume_any_more(clock: Clock, has_answered: bool) -> None:
    model, machine = moving(clock)
    [(_, ended)] = model.commands
    model.commands.clear()
    ended(False)
    machine = play(model, machine, 10, works=has_answered)
    play(model, machine, 2, works=False)
    assert model.sent == ["migrate", "remove"][: 1 + has_answered]


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_service_is_alive_without_a_gap_or_with_signs_of_life(clock: Clock, is_silent: bool) -> None:
    """The bus may be away for a while, or the database."""
    model, machine = moving(clock)
    model.copy_rows.clear()
    [(_, ended)] = model.commands
    if is_silent:
        ended(False)
    machine = play(model, machine, 30, works=False)
    if not is_silent:
        model.is_up = False
        machine = play(model, machine, 30, works=False)
        model.is_up = True
    assert model.record_ is not None
    assert model.record_.step is Step.MOVING
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 3, "available")


@pytest.mark.parametrize(("is_up", "gap", "has_copy", "is_dead"), [
    (True, 0, True, False), (True, 15, True, True), (True, 15, False, False), (False, 0, False, True),
])  # fmt: skip
def test_what_another_scheduler_takes_for_death(
    clock: Clock, is_up: bool, gap: float, has_copy: bool, is_dead: bool
) -> None:
    model, _ = moving(clock)
    model.commands.clear()
    if not has_copy:
        model.copy_rows.clear()
    machine = play(model, scheduler(model), 12, works=False)
    model.is_up = is_up
    clock.now += gap
    play(model, machine, 12, works=False)
    assert model.record_ is None or model.record_.step is (Step.UNDOING if is_dead else Step.MOVING)
    assert (model.record_ is None) == (is_dead and not has_copy)


def test_rows_that_are_about_to_be_swapped_are_swapped(clock: Clock) -> None:
    model, _ = moving(clock, "completing")
    model._set(name_id="copy")
    model.is_up = False
    play(model, scheduler(model), 20, works=False)
    model.is_up = True
    play(model, scheduler(model))
    assert rest(model)[:3] == (TARGET, 3, "available")


def test_rows_are_swapped_if_cinder_fails_between_the_storage_and_the_rows(clock: Clock) -> None:
    model, machine = moving(clock, "error")
    model._set(name_id="copy")
    model.commands.clear()
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 3, "available")


def test_a_copy_that_cinder_keeps_after_an_error_is_removed(clock: Clock) -> None:
    model, machine = moving(clock)
    model.commands.clear()
    machine = play(model, machine, 1, works=False)
    model.copy_rows.clear()
    model.kept = BEGIN._replace(pool=TARGET, status="available")
    model._set(migration_status="error")
    machine = play(model, machine, 4, works=False)
    assert model.sent == ["migrate", "remove"]
    assert model.row == BEGIN._replace(migration_status="error", previous_status="extending")
    play(model, machine)
    assert rest(model) == WHERE_IT_WAS
    assert model.kept is None


def test_a_volume_that_has_moved_is_extended_whatever_its_migration_status(clock: Clock) -> None:
    model, machine = moving(clock)
    model.copy_rows.clear()
    model.commands.clear()
    model._set(pool=TARGET, migration_status="")
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 3, "available")


def test_rows_that_were_just_swapped_are_extended(clock: Clock) -> None:
    model, machine = moving(clock)
    model.copy_rows.clear()
    model.commands.clear()
    model._set(pool=TARGET, status="available", migration_status="")
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 3, "available")


def extending(clock: Clock, seconds: float = 1000) -> tuple[Model, Growing]:
    """Return the model while cinder-volume extends the volume, which the ledger shows as sent."""
    model = Model(clock, extend_seconds=seconds)
    machine = scheduler(model)
    while model.record_ is not None and model.record_.step is not Step.SENT:
        machine = play(model, machine, 1)
    return model, machine


def test_an_extension_is_sent_again_after_its_service_has_died(clock: Clock) -> None:
    model, machine = extending(clock)
    machine = play(model, machine, 12)
    [command] = model.running
    model.running.clear()
    model.is_up = False
    machine = play(model, machine, 12, works=False)
    command.progress(Outcome.SILENT)
    machine = play(model, machine, 12, works=False)
    assert model.sent == ["migrate", "extend"]
    model.is_up = True
    model.extend_seconds = 0
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert (model.sent, model.wrongs) == (["migrate", "extend", "extend"], [])


def test_an_extension_that_was_sent_runs_on_without_its_scheduler(clock: Clock) -> None:
    model, _ = extending(clock)
    play(model, scheduler(model), 2000)
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert (model.sent, model.wrongs) == (["migrate", "extend"], [])


@pytest.mark.parametrize("seconds", [4, 30])
def test_another_scheduler_sees_the_death_of_a_service_that_extends_a_volume(clock: Clock, seconds: float) -> None:
    model, _ = extending(clock)
    machine = play(model, scheduler(model), 30)
    model.running.clear()
    model.beat_interval, model.extend_seconds = 10 + seconds, 0
    machine = play(model, machine, 30)
    model.beat_interval = 10
    play(model, machine)
    assert model.wrongs == []
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert model.sent == ["migrate", "extend", "extend"]


@pytest.mark.parametrize("gap", [4, 30])
@pytest.mark.parametrize("reason", ["frozen", "cinder away", "ledger away", "before"])
def test_a_time_without_looks_shows_no_death(clock: Clock, gap: float, reason: str) -> None:
    """Heartbeats may have come, could not be stored, or were missing before the command."""
    model, _ = extending(clock)
    machine = play(model, scheduler(model), 30)
    volume = model.volume
    error = OSError("no database") if reason == "cinder away" else errors.Unavailable("no ledger")

    def away(_volume_id: str) -> Volume | None:
        raise error

    if reason == "before":
        machine = scheduler(model)
        model.is_up = False
        model.pass_time(10 + gap)
    elif reason == "frozen":
        for _ in range(int(10 + gap)):
            model.pass_time(1)
    else:
        model.volume = away  # type: ignore[method-assign]
        model.is_up = False
        until = clock.now + 10 + gap
        while clock.now < until:
            try:
                machine.turn()
            except errors.Unavailable:
                assert reason == "ledger away"
            model.pass_time(2)
        model.volume = volume  # type: ignore[method-assign]
    machine.turn()
    model.is_up = True
    machine = play(model, machine, 60)
    assert (model.sent, model.wrongs) == (["migrate", "extend"], [])
    play(model, machine, 1000)
    assert rest(model)[:3] == (TARGET, 3, "available")


def test_an_extension_that_waits_for_its_service_is_sent_once(clock: Clock) -> None:
    """Its command is still in the queue when the service that was down is up again."""
    model = Model(clock, extend_seconds=100)
    machine = scheduler(model)
    while "extend" not in model.sent:
        machine = play(model, machine, 1, works="extend" in model.sent)
        if "extend" not in model.sent:
            model.work()
    [(_, progress)] = model.commands
    model.is_up = False
    machine = play(model, machine, 30, works=False)
    progress(Outcome.SILENT)
    machine = play(model, machine, 60, works=False)
    model.is_up = True
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert (model.sent, model.wrongs) == (["migrate", "extend"], [])


def test_an_extension_that_the_bus_may_have_lost_is_sent_again(clock: Clock) -> None:
    model = Model(clock)
    machine = play(model, scheduler(model), 1)
    while "extend" not in model.sent:
        machine = play(model, machine, 1, works=False)
    [(_, progress)] = model.commands
    model.commands.clear()
    progress(Outcome.UNCERTAIN)
    machine = play(model, machine, int(growth_steps._DOUBT / 2) - 2)
    assert model.sent.count("extend") == 1
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert model.sent.count("extend") == 2


def test_what_a_scheduler_knows_of_an_earlier_command_does_not_hold_for_a_later_one(clock: Clock) -> None:
    """Another scheduler has sent it, and died, while this one was frozen."""
    model = Model(clock, extend_seconds=200)
    first = play(model, scheduler(model), 1)
    while "extend" not in model.sent:
        first = play(model, first, 1, works=False)
    [(_, progress)] = model.commands
    model.commands.clear()
    progress(Outcome.UNCERTAIN)
    first = play(model, first, 10)
    other = scheduler(model)
    while model.sent.count("extend") == 1:
        other = play(model, other, 1)
    model.pass_time(growths.LEASE)
    play(model, first, 2000)
    assert model.wrongs == []
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert model.sent.count("extend") == 2


def test_a_volume_whose_command_cannot_be_sent_stays_where_it_was(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_view: View, _growth: Growth, _progress: Progress) -> None:
        raise OSError("no bus")

    monkeypatch.setattr(View, "migrate", fail)
    model = Model(clock)
    play(model, scheduler(model), 10)
    assert rest(model) == WHERE_IT_WAS


def test_an_extension_that_could_not_be_sent_is_sent_again(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = itertools.count()
    extend = View.extend

    def fail(view: View, growth: Growth, progress: Progress) -> None:
        if next(failures) < 3:
            raise OSError("no bus")
        extend(view, growth, progress)

    monkeypatch.setattr(View, "extend", fail)
    model = Model(clock)
    play(model, scheduler(model), 20)
    assert rest(model)[:3] == (TARGET, 3, "available")


def test_a_move_that_may_not_have_been_sent_is_not_undone_at_once(clock: Clock) -> None:
    """The scheduler that recorded it may have been frozen for a moment between its last look and the command."""
    model = Model(clock)
    machine = scheduler(model)
    while "migrate" not in model.sent:
        machine = play(model, machine, 1, works=False)
    model.commands.clear()
    other = scheduler(model)
    while not model.answered:
        other = play(model, other, 1)
    answered_at = clock.now
    while model.record_ is not None and model.record_.step is Step.MOVING:
        other = play(model, other, 1)
    assert clock.now - answered_at >= growths.LEASE
    play(model, other)
    assert rest(model) == WHERE_IT_WAS


def test_an_extension_that_fails_is_as_cinder_leaves_it(clock: Clock) -> None:
    model = Model(clock)
    machine = play(model, scheduler(model), 1)
    machine = play(model, machine, 1, works=False)
    model.commands.clear()
    model._set(status="error_extending")
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 1, "error_extending")


def test_a_volume_whose_extension_is_refused_is_usable_at_its_size(clock: Clock) -> None:
    model = Model(clock, refuses=True)
    model.old_rows["old"] = "deleting"
    play(model, scheduler(model))
    assert rest(model)[:3] == (TARGET, 1, "available")
    assert (model.sent, model.told) == (["migrate", "extend", "remove"], 1)


@pytest.mark.parametrize("at", range(1, moments(refuses=True) + 1))
@pytest.mark.parametrize("freeze", [0, 400])
def test_a_refused_extension_ends_well_without_its_scheduler(clock: Clock, at: int, freeze: float) -> None:
    """Another scheduler knows the reason only from the ledger."""
    model = Model(clock, refuses=True, freeze=freeze, **({"freeze_at": at} if freeze else {"kill_at": at}))
    play(model, scheduler(model))
    assert rest(model)[:3] in (
        (TARGET, 1, "available"),
        (TARGET, 1, "error_extending"),
        (SOURCE, 1, "available"),
    )
    assert (model.wrongs, model.told <= 1) == ([], True)


@pytest.mark.parametrize("turns", [0, 2])
def test_an_administrator_who_resets_the_status_ends_the_growth(clock: Clock, turns: int) -> None:
    model = Model(clock)
    machine = play(model, scheduler(model), turns, works=False)
    model._set(status="available", migration_status="", previous_status="")
    play(model, machine, works=False)
    assert rest(model) == WHERE_IT_WAS
    assert model.told == 0


@pytest.mark.parametrize("turns", [0, 2])
def test_the_growth_of_a_volume_that_is_deleted_ends(clock: Clock, turns: int) -> None:
    model = Model(clock)
    machine = play(model, scheduler(model), turns, works=False)
    model.row = None
    model.copy_rows["copy"] = "available"
    play(model, machine, 40, works=False)
    assert "remove" in model.sent
    model.commands = [command for command in model.commands if command[0] == "remove"]
    play(model, machine)
    assert (model.record_, model.reserved, model.copy_rows) == (None, False, {})


def test_what_is_left_in_the_old_pool_is_removed(clock: Clock) -> None:
    model = Model(clock)
    model.old_rows["old"] = "deleting"
    play(model, scheduler(model))
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert model.sent == ["migrate", "extend", "remove"]


def test_a_copy_that_cannot_be_removed_is_not_waited_for_for_ever(clock: Clock) -> None:
    model = Model(clock, fails=True)
    model.copy_rows["copy"] = "available"
    machine = play(model, scheduler(model), 2)
    machine = play(model, machine, 10, works=False)
    assert model.record_ is not None
    assert model.row == BEGIN._replace(migration_status="error", previous_status="extending")
    play(model, machine, works=False)
    assert model.record_ is None
    assert model.row is not None
    assert model.row.status == "available"


def test_an_error_of_cinder_ends_no_growth(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    model = Model(clock)
    failures = itertools.count()

    def fail(_volume_id: str) -> Volume | None:
        if next(failures) < 3:
            raise OSError("no database")
        return model.row

    model.volume = fail  # type: ignore[method-assign]
    play(model, scheduler(model))
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert "The growth of volume v is tried again" in caplog.text


def test_a_ledger_that_is_away_is_the_worker_s_matter(clock: Clock) -> None:
    model = Model(clock)

    def away(_volume_id: str) -> Volume | None:
        raise errors.Unavailable("the ledger is away")

    model.volume = away  # type: ignore[method-assign]
    with pytest.raises(errors.Unavailable):
        scheduler(model).turn()


def test_a_move_that_nobody_watches_is_named_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    model, _ = moving(clock)
    machine = play(model, scheduler(model), int(growth_steps._UNWATCHED / 2) + 10, works=False)
    play(model, machine, 10, works=False)
    named = [record for record in caplog.records if "set the status of the volume to 'available'" in record.message]
    assert len(named) == 1
