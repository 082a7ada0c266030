# SPDX-License-Identifier: Apache-2.0
"""Two agent processes that introduce themselves as the same backend."""

import pytest

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.rpc.messages import AgentProcess, Hello
from tonnage.scheduler.reports import registration


@pytest.fixture
def world() -> World:
    return World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()


def hello(world: World, lock: str, name: str) -> int | str:
    """Say hello as a process; return its epoch, or the message of the refusal."""
    nonce = AgentProcess(lock, name, f"{name}@box").nonce
    [answer] = world.registration.hellos(
        [Hello(backend=BACKEND, nonce=nonce, availability_zone="nova", driver="memory")]
    )
    if isinstance(answer, Exception):
        assert isinstance(answer, errors.Conflict)
        return answer.message
    return answer.epoch


def report(world: World, epoch: int) -> None:
    world.agent.epoch = epoch
    world.report()


@pytest.fixture
def requested(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends that were asked for a report."""
    found: list[str] = []
    monkeypatch.setattr(world, "report_now", found.append, raising=False)
    return found


def test_a_process_with_the_lock_of_the_last_one_takes_over_at_once(world: World, requested: list[str]) -> None:
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    assert hello(world, "lock1", "1") == epoch
    assert hello(world, "lock1", "2") == epoch + 1
    assert requested == []


def test_a_second_process_does_not_take_over_while_the_first_one_reports(
    world: World, requested: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    monkeypatch.setattr(registration, "_SILENCE", 1e-9)
    for _ in range(3):
        refused = hello(world, "lock2", "2")
        assert isinstance(refused, str)
        assert f"backend {BACKEND} is run by process 1@box, so process 2@box does not run it: give each" in refused
        report(world, epoch)
    assert requested == [BACKEND] * 3
    assert [record.levelname for record in caplog.records if "Two agents" in record.message] == ["ERROR"]
    assert hello(world, "lock1", "1") == epoch


def test_a_second_process_takes_over_once_the_first_one_is_silent(
    world: World, requested: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    assert isinstance(hello(world, "lock2", "2"), str)
    assert isinstance(hello(world, "lock2", "2"), str), "the first one has some seconds"
    monkeypatch.setattr(registration, "_SILENCE", 1e-9)
    assert hello(world, "lock2", "2") == epoch + 1
    # The first one, which was only slow, does not take the backend back.
    monkeypatch.undo()
    assert isinstance(hello(world, "lock1", "1"), str)
