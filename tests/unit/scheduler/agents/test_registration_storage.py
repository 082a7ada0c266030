# SPDX-License-Identifier: Apache-2.0
"""Storage that is not that of the volumes in the ledger: a file system that is not mounted, an emptied folder."""

import dataclasses
from collections.abc import Mapping

import pytest

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.ledger.locks import ledger_identity
from tonnage.rpc.messages import Answer, Hello, Receipt


@pytest.fixture
def world() -> World:
    pools = {name: StoragePool(20, 2.0, thin=True, thick=False) for name in ("p0", "p1")}
    return World(pools).started()


def ledger_id(world: World) -> str:
    return world.database.run(ledger_identity.ledger_id)


def hello(world: World, marks: Mapping[str, str], nonce: str = "restarted") -> int | errors.TonnageError:
    """Say hello as a restarted agent; return the epoch or the refusal."""
    message = Hello(backend=BACKEND, nonce=nonce, availability_zone="nova", driver="x", ledger_marks=dict(marks))
    [answer] = world.registration.hellos([message])
    if isinstance(answer, Exception):
        assert isinstance(answer, errors.TonnageError)
        return answer
    return answer.epoch


def joins(world: World, marks: Mapping[str, str], nonce: str = "restarted") -> None:
    """Join as a restarted agent, whose storage is marked by now."""
    epoch = hello(world, marks, nonce)
    assert isinstance(epoch, int)
    world.agent.epoch, world.agent.commands = epoch, []
    message = dataclasses.replace(world.agent.listing(), ledger_marks=dict(marks))
    assert world.registration.listings([message]) == [Receipt(accepted=True)]
    world.report()


def listing(world: World, *unmarked_pools: str) -> Receipt | Exception:
    """Say hello as a restarted agent without marks, and list the storage as it is."""
    epoch = hello(world, {})
    assert isinstance(epoch, int)
    world.agent.epoch, world.agent.commands = epoch, []
    message = dataclasses.replace(world.agent.listing(), unmarked_pools=list(unmarked_pools))
    [answer] = world.registration.listings([message])
    return answer


def placed(world: World) -> tuple[str, str]:
    """Create a volume and return its id and the name of its pool."""
    volume_id = world.made(2)
    [name] = [name for name, pool in world.pools.items() if volume_id in pool.volumes]
    return volume_id, name


def epoch_of(world: World) -> int:
    [(epoch,)] = world.rows("SELECT epoch FROM backends")
    return int(epoch)


# Drivers that mark their storage


def test_storage_without_a_mark_is_refused_where_the_ledger_counts_volumes(world: World) -> None:
    _, pool = placed(world)
    before = epoch_of(world)
    marks = {"p0": ledger_id(world), "p1": ledger_id(world)} | {pool: ""}
    refusal = hello(world, marks)
    assert isinstance(refusal, errors.WrongStorage)
    assert refusal.message == (
        f"the ledger counts volumes in {BACKEND}#{pool} (1 volume(s)), and the storage there lacks the mark "
        f"{ledger_id(world)}: mount the file system with the volumes, then the backend joins by itself; if they are "
        f"lost for ever: tonnage-manage backend remove {BACKEND}#{pool} --volumes-are-lost"
    )
    assert epoch_of(world) == before, "a refused process opens no epoch"
    assert hello(world, {"p0": ledger_id(world), "p1": ledger_id(world)}) == before + 1


def notice_of(world: World) -> tuple[str | None, str]:
    """Return the code and the text of the notice about the backend, by the ledger, as the state's reason shows it."""
    [(code, text)] = world.rows("SELECT notice, COALESCE(notice_text, '') FROM backends")
    return code, text


def test_the_refusal_is_the_reason_of_the_backends_state_until_its_agent_joins(world: World) -> None:
    _, pool = placed(world)
    refusal = hello(world, {pool: ""})
    assert isinstance(refusal, errors.WrongStorage)
    assert notice_of(world) == ("refused", refusal.message)
    assert world.hosts.notice(BACKEND) == f"its agent is refused: {refusal.message}"
    joins(world, {pool: ledger_id(world)})
    assert notice_of(world) == (None, "")
    assert world.hosts.notice(BACKEND) is None


def refusals_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of the log about refused storage."""
    return [line for record in caplog.records if "the ledger counts volumes" in (line := record.getMessage())]


def test_a_refusal_is_logged_with_its_pools_when_it_changes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    _, pool = placed(world)
    for _ in range(3):
        refusal = hello(world, {pool: ""})
    assert isinstance(refusal, errors.WrongStorage)
    assert refusals_of(caplog) == [f"Backend {BACKEND} is refused: {refusal.message}"]
    joins(world, {pool: ledger_id(world)})
    hello(world, {pool: ""}, nonce="unmounted again")
    assert len(refusals_of(caplog)) == 2


def test_a_refusal_of_a_listing_is_logged_when_it_changes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    _, pool = placed(world)
    world.pools[pool].volumes.clear()
    for _ in range(3):
        assert isinstance(listing(world, pool), errors.WrongStorage)
    assert len(refusals_of(caplog)) == 1


def test_a_claim_whose_operation_has_not_ended_counts(world: World) -> None:
    """The agent ran before the claim was made, so the storage was marked."""
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    refusal = hello(world, {"p0": "", "p1": ""})
    assert isinstance(refusal, errors.WrongStorage)
    assert "(1 volume(s))" in refusal.message


def test_a_volume_that_is_being_deleted_counts_until_the_storage_has_answered(world: World) -> None:
    volume_id, pool = placed(world)
    world.delete(volume_id)
    assert isinstance(hello(world, {pool: ""}), errors.WrongStorage)
    world.settle()
    assert isinstance(hello(world, {pool: ""}, nonce="later"), int)


def test_a_refusal_names_each_pool_with_its_number_of_volumes(world: World) -> None:
    for size in (30, 30, 1):
        world.made(size)
    counts = {name: len(pool.volumes) for name, pool in world.pools.items()}
    assert min(counts.values()) > 0
    refusal = hello(world, {"p0": "", "p1": ""})
    assert isinstance(refusal, errors.WrongStorage)
    for name, count in counts.items():
        assert f"{BACKEND}#{name} ({count} volume(s))" in refusal.message


def test_new_storage_joins_where_the_ledger_counts_nothing(world: World) -> None:
    _, pool = placed(world)
    [empty] = world.pools.keys() - {pool}
    assert isinstance(hello(world, {pool: ledger_id(world), empty: "", "added": "", "\0\ud800": ""}), int)


def test_a_mount_point_that_was_marked_before_the_first_mount_is_not_the_storage(world: World) -> None:
    """The agent starts, somebody mounts the file system, and after a reboot it is not mounted."""
    mount_point, disk = (f"{ledger_id(world)}-{random}" for random in ("0a0a0a0a", "1b1b1b1b"))
    joins(world, {"p0": mount_point, "p1": mount_point}, "first")
    joins(world, {"p0": disk, "p1": disk}, "second")
    _, pool = placed(world)
    refusal = hello(world, {"p0": mount_point, "p1": mount_point})
    assert isinstance(refusal, errors.WrongStorage)
    assert f"{BACKEND}#{pool} (1 volume(s)), and the storage there lacks the mark {disk}: mount" in refusal.message
    joins(world, {"p0": disk, "p1": disk}, "third")


def test_a_mark_that_the_ledger_does_not_know_yet_is_accepted(world: World) -> None:
    """An agent that ended between marking and listing has left it, or the ledger is of a backup from before."""
    _, pool = placed(world)
    joins(world, {pool: f"{ledger_id(world)}-0a0a0a0a"})
    assert isinstance(hello(world, {pool: f"{ledger_id(world)}-1b1b1b1b"}, "other"), errors.WrongStorage)


def test_the_mark_of_another_ledger_is_refused(world: World) -> None:
    refusal = hello(world, {"p0": "1c0de2f4-8a57-4b92-9e36-07d5b8f3a6c1-0a0a0a0a"})
    assert isinstance(refusal, errors.Conflict)
    assert "the storage belongs to ledger 1c0de2f4-8a57-4b92-9e36-07d5b8f3a6c1, and the schedulers" in refusal.message


def test_marks_that_no_pool_can_have_are_not_recorded(world: World) -> None:
    mark = f"{ledger_id(world)}-0a0a0a0a"
    joins(world, {"p0": mark, "\0": mark, "x" * 256: mark})
    assert world.rows("SELECT pool, mark FROM storage_marks") == [("p0", mark)]


# Drivers without marks: the first listing decides


def test_a_listing_with_none_of_the_volumes_is_refused(world: World) -> None:
    volume_id, pool = placed(world)
    world.delete(placed(world)[0])  # its command waits for the agent
    volumes, world.pools[pool].volumes = world.pools[pool].volumes, {"another": (2, Provisioning.THIN)}
    refusal = listing(world, "p0", "p1")
    assert isinstance(refusal, errors.WrongStorage)
    assert f"{BACKEND}#{pool} (1 volume(s)), and the storage there holds none of them: mount" in refusal.message
    assert f"backend remove {BACKEND}#{pool} --volumes-are-lost" in refusal.message
    assert world.agent.commands == [], "it gets no command"
    assert notice_of(world) == ("refused", refusal.message)
    assert world.rows("SELECT volume_id FROM discrepancies") == [], "it proves nothing about the right storage"
    world.pools[pool].volumes = volumes
    assert listing(world, "p0", "p1") == Receipt(accepted=True)
    assert volume_id in volumes


def test_a_listing_with_one_of_the_volumes_is_accepted(world: World) -> None:
    lost, pool = placed(world)
    while placed(world)[1] != pool:
        pass
    del world.pools[pool].volumes[lost]
    assert listing(world, "p0", "p1") == Receipt(accepted=True)
    assert world.rows("SELECT volume_id, category FROM discrepancies") == [(lost, "lost")]


def test_volumes_with_operations_prove_nothing(world: World) -> None:
    """An agent that ended between a deletion and its outcome lists nothing, and the volume is gone indeed."""
    volume_id, pool = placed(world)
    world.delete(volume_id)
    world.create(1)
    world.pools[pool].volumes.clear()
    assert listing(world, "p0", "p1") == Receipt(accepted=True)


def test_pools_that_the_driver_has_no_more_are_not_compared(world: World) -> None:
    _, pool = placed(world)
    world.pools[pool].volumes.clear()
    [other] = world.pools.keys() - {pool}
    assert listing(world, other) == Receipt(accepted=True)
