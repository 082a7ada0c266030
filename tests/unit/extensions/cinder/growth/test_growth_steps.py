# SPDX-License-Identifier: Apache-2.0
"""The steps of volumes that move to grow, with a scheduler or a cinder-volume that is killed at each of them."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tonnage.capacity import errors
from tonnage.extensions.cinder.growth import growth_steps
from tonnage.extensions.cinder.growth.growth_steps import Beats, Copy, Ended, Growing, Volume
from tonnage.extensions.cinder.ledger.growths import Growth, Step

SOURCE, TARGET = "real@b1#a", "real@b2#a"
GROWTH = Growth(
    id="claim", volume_id="v", request_id="req", project_id="p", user_id="u", source=SOURCE, target=TARGET, name_id="v",
    size_gb=1, new_size_gb=3, reservations=("r",),
)  # fmt: skip
BEGIN = Volume(SOURCE, 1, "extending", "", "available", "v")
WHERE_IT_WAS = (SOURCE, 1, "available", "", "")


class Killed(BaseException):
    """The scheduler is killed here."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Model:
    """Ledger, Cinder and storage, with one volume. ``kill_at`` is the number of the call at which a scheduler dies.

    At the call ``error_at`` it meets an error instead. ``fails`` lets the copy fail.
    """

    clock: Clock
    fails: bool = False
    is_owner: bool = True
    kill_at: int = 0
    error_at: int = 0
    calls: int = 0
    record_: Growth | None = GROWTH
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
    commands: list[tuple[str, Ended]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    def _call(self, effect: Callable[[], object] = lambda: None) -> None:
        """Let the scheduler be killed, or meet an error, before or after an effect."""
        self._stop()
        effect()
        self._stop()

    def _stop(self) -> None:
        self.calls += 1
        if self.calls == self.kill_at:
            raise Killed
        if self.calls == self.error_at:
            raise OSError("no database")

    def _set(self, **values: object) -> None:
        assert self.row is not None
        self.row = self.row._replace(**values)

    # The ledger

    def growths(self) -> list[Growth]:
        return [] if self.record_ is None else [replace(self.record_, age=self.clock() - self.since)]

    def record(self, growth: Growth, step: Step, reason: str = "") -> bool:
        if self.record_ is None or self.record_.step is not growth.step or not self.is_owner:
            return False

        def effect() -> None:
            self.record_ = replace(growth, step=step, reason=reason)
            self.since = self.clock()

        self._call(effect)
        return True

    def end(self, growth: Growth) -> None:
        def effect() -> None:
            self.record_ = None

        self._call(effect)

    def probes(self, backend: str) -> tuple[int, int]:
        return self.probed, self.answered

    def probe(self, backend: str) -> None:
        self.probed += 1
        self.commands.append(("probe", lambda _: None))

    # Cinder's rows

    def volume(self, volume_id: str) -> Volume | None:
        return self.row if volume_id == "v" else self.kept

    def copies(self, volume_id: str) -> list[Copy]:
        return [Copy(*item) for item in self.copy_rows.items()]

    def old_copies(self, volume_id: str) -> list[Copy]:
        return [Copy(*item) for item in self.old_rows.items()]

    def beats(self, backend: str) -> Beats:
        return Beats(self.is_up, {"real": self.beat})

    def _stays(self) -> bool:
        return self.row is not None and self.row[:3] == (SOURCE, 1, "extending")

    def mark(self, growth: Growth) -> bool:
        if not self._stays():
            return False
        self._call(lambda: self._set(migration_status="starting", previous_status="extending"))
        return True

    def give_back(self, growth: Growth) -> bool:
        if not self._stays():
            return False
        self._call(lambda: self._set(status="available", migration_status="", previous_status="", name_id="v"))
        return True

    def resume(self, growth: Growth) -> bool:
        self._call(lambda: self._set(status="extending", migration_status="success"))
        return True

    def swap(self, growth: Growth, copy_id: str) -> None:
        def effect() -> None:
            self.copy_rows.clear()
            self.old_rows["copy"] = "deleting"
            self._set(pool=TARGET, migration_status="success")

        self._call(effect)

    # Commands, quotas and messages

    def _send(self, command: str, ended: Ended = lambda _: None) -> None:
        def effect() -> None:
            self.commands.append((command, ended))
            self.sent.append(command)

        self._call(effect)

    def migrate(self, growth: Growth, ended: Ended) -> None:
        self._send("migrate", ended)

    def extend(self, growth: Growth, ended: Ended) -> None:
        self._send("extend", ended)

    def remove(self, copy_id: str) -> None:
        self._send("remove")

    def roll_back(self, growth: Growth) -> None:
        def effect() -> None:
            self.reserved = False

        self._call(effect)

    def tell(self, growth: Growth) -> None:
        def effect() -> None:
            self.told += 1

        self._call(effect)

    # cinder-volume

    def work(self) -> None:
        """Execute all commands."""
        while self.commands:
            command, ended = self.commands.pop(0)
            if command == "probe":
                self.answered = self.probed
            elif command == "remove":
                self.copy_rows.clear()
                self.old_rows.clear()
                self.kept = None
            elif command == "extend":
                self.reserved = False
                self._set(size_gb=3, status="available")
                ended(True)
            elif self.fails:
                self._set(migration_status="error")
                ended(True)
            else:
                self._set(pool=TARGET, migration_status="success")
                ended(True)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def scheduler(model: Model) -> Growing:
    return Growing(model, model, model.probe, model.clock)


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
        model.clock.now += 2
        if model.is_up and model.clock.now - model.beat >= model.beat_interval:
            model.beat = model.clock.now
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


def calls(*, fails: bool) -> int:
    """Return the number of calls, each with a moment before and one after it."""
    model = Model(Clock(), fails=fails)
    play(model, scheduler(model))
    return model.calls


@pytest.mark.parametrize("kill_at", range(1, calls(fails=False) + 1))
def test_a_scheduler_that_is_killed_at_any_step_is_replaced(clock: Clock, kill_at: int) -> None:
    model = Model(clock, kill_at=kill_at)
    play(model, scheduler(model))
    assert rest(model)[:3] in ((TARGET, 3, "available"), (SOURCE, 1, "available"))
    assert model.sent.count("migrate") <= 1
    assert model.told == (1 if rest(model)[0] == SOURCE else 0)


@pytest.mark.parametrize("kill_at", range(1, calls(fails=True) + 1))
def test_a_scheduler_that_is_killed_while_a_growth_is_undone_is_replaced(clock: Clock, kill_at: int) -> None:
    model = Model(clock, fails=True, kill_at=kill_at)
    play(model, scheduler(model))
    assert rest(model) == WHERE_IT_WAS
    assert model.told <= 1


@pytest.mark.parametrize("fails", [False, True], ids=["copied", "not copied"])
@pytest.mark.parametrize("error_at", range(1, max(calls(fails=False), calls(fails=True)) + 1))
def test_a_scheduler_that_meets_an_error_at_any_step_goes_on(clock: Clock, error_at: int, fails: bool) -> None:
    model = Model(clock, fails=fails, error_at=error_at)
    play(model, scheduler(model))
    assert rest(model)[:3] in ((TARGET, 3, "available"), (SOURCE, 1, "available"))
    assert model.sent.count("migrate") <= 1


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
    play(model, scheduler(model), 3, works=False)
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


def test_an_extension_is_sent_again_after_its_service_has_died(clock: Clock) -> None:
    model = Model(clock)
    machine = play(model, scheduler(model), 1)
    while model.sent != ["migrate", "extend"]:
        machine = play(model, machine, 1, works=False)
    [(_, ended)] = model.commands
    model.commands.clear()
    machine = play(model, machine, 12, works=False)
    assert model.sent.count("extend") == 1
    ended(False)
    clock.now += 15
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 3, "available")
    assert model.sent.count("extend") == 2


def test_an_extension_that_fails_is_as_cinder_leaves_it(clock: Clock) -> None:
    model = Model(clock)
    machine = play(model, scheduler(model), 1)
    machine = play(model, machine, 1, works=False)
    model.commands.clear()
    model._set(status="error_extending")
    play(model, machine)
    assert rest(model)[:3] == (TARGET, 1, "error_extending")


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
