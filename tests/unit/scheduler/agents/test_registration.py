# SPDX-License-Identifier: Apache-2.0
"""Two agent processes that introduce themselves as the same backend."""

import time

import pytest

from tests.servers.base import wait_for
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.rpc.messages import AgentProcess, Hello


@pytest.fixture
def world() -> World:
    return world_with_patience(600.0)


def world_with_patience(silence: float) -> World:
    """Return a world whose scheduler waits so many seconds for the report of a backend."""
    return World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, silence=silence).started()


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


@pytest.mark.parametrize("name", ["", "@", "#", "host@b#p", "host"])
def test_a_name_that_is_no_backend_is_refused(world: World, name: str, caplog: pytest.LogCaptureFixture) -> None:
    [answer] = world.registration.hellos([Hello(backend=name, nonce="n", availability_zone="nova", driver="memory")])
    assert isinstance(answer, errors.InvalidInput)
    assert answer.message == f"backend is {name!r}: expected host@backend, two names without '@', '#' and blanks"
    assert world.hosts.backend(name) is None
    assert f"An agent said hello as backend {name!r}, and is refused" in caplog.text


def test_a_process_with_the_lock_of_the_last_one_takes_over_at_once(world: World) -> None:
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    assert hello(world, "lock1", "1") == epoch
    assert hello(world, "lock1", "2") == epoch + 1
    assert world.report_requests == []


def test_a_second_process_does_not_take_over_while_the_first_one_reports(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = world_with_patience(1e-9)
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    for _ in range(3):
        refused = hello(world, "lock2", "2")
        assert isinstance(refused, str)
        assert f"backend {BACKEND} is run by process 1@box, so process 2@box does not run it: give each" in refused
        time.sleep(0.02)  # the clock of the ledger counts in milliseconds
        report(world, epoch)
    assert world.report_requests == [BACKEND] * 3
    assert [record.levelname for record in caplog.records if "Two agents" in record.message] == ["ERROR"]
    assert hello(world, "lock1", "1") == epoch


def test_a_second_process_takes_over_once_the_first_one_is_silent() -> None:
    world = world_with_patience(0.2)
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    assert isinstance(hello(world, "lock2", "2"), str), "the first one has some time"
    wait_for(lambda: hello(world, "lock2", "2") == epoch + 1, "the second one takes over")
    # The first one, which was only slow, does not take the backend back.
    assert isinstance(hello(world, "lock1", "1"), str)


def test_a_process_that_has_not_reported_for_a_moment_keeps_its_backend(world: World) -> None:
    epoch = hello(world, "lock1", "1")
    assert isinstance(epoch, int)
    report(world, epoch)
    for _ in range(2):
        assert isinstance(hello(world, "lock2", "2"), str), "it has some seconds"
    assert hello(world, "lock1", "1") == epoch
