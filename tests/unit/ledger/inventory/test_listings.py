# SPDX-License-Identifier: Apache-2.0
"""Lists of volumes against the ledger, told by the little world's agent."""

import dataclasses
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.request import Provisioning
from tonnage.ledger import models
from tonnage.ledger.claims import deletions
from tonnage.ledger.inventory import listings
from tonnage.rpc.messages import Answer, ListedVolume, Listing


@pytest.fixture
def world() -> World:
    return World({"p0": StoragePool(100, 2.0, thin=True, thick=False)}).started()


def tell(world: World, listing: Listing | None = None) -> None:
    [receipt] = world.registration.listings([listing or world.agent.listing()])
    assert not isinstance(receipt, Exception)


def found(world: World) -> list[tuple[Any, ...]]:
    return world.rows("SELECT volume_id, kind, listed_gb, ledger_gb FROM discrepancies ORDER BY volume_id")


def external(world: World) -> float:
    [(size,)] = world.rows("SELECT external_gb FROM pools")
    assert world.hosts.entries[f"{BACKEND}#p0"].counters.external == size, "the scheduler knows it too"
    return float(size)


def put(world: World, name: str, size: float) -> None:
    world.pools["p0"].volumes[name] = (size, Provisioning.THIN)  # type: ignore[assignment]


def test_a_list_of_what_is_counted_shows_nothing(world: World) -> None:
    world.made(3)
    assert world.rows("SELECT last_listing_at FROM backends") != [(None,)], "the hello came with one"
    tell(world)
    assert found(world) == []


def test_what_nobody_claims_is_an_orphan_until_it_is_gone(world: World) -> None:
    put(world, "of-others", 7.25)
    put(world, "more", 1.5)
    tell(world)
    assert found(world) == [("more", "orphan", 1.5, 0.0), ("of-others", "orphan", 7.25, 0.0)]
    assert external(world) == 8.75
    [since] = world.rows("SELECT seen_at FROM discrepancies WHERE volume_id = 'more'")
    del world.pools["p0"].volumes["of-others"]
    tell(world)
    assert found(world) == [("more", "orphan", 1.5, 0.0)]
    assert world.rows("SELECT seen_at FROM discrepancies") == [since], "what is the same is not written again"
    assert external(world) == 1.5


def test_a_volume_that_has_disappeared_is_lost_and_stays_counted(world: World) -> None:
    volume_id = world.made(3)
    del world.pools["p0"].volumes[volume_id]
    tell(world)
    assert found(world) == [(volume_id, "lost", 0.0, 3.0)]
    assert world.rows("SELECT allocated_capacity_gb FROM pools") == [(3,)]
    put(world, volume_id, 3)
    tell(world)
    assert found(world) == []


@pytest.mark.parametrize(("there", "kinds"), [(2.01, []), (3.0, []), (3.01, ["size"]), (2.0, ["size"])])
def test_sizes_differ_beyond_rounding_up(world: World, there: float, kinds: list[str]) -> None:
    volume_id = world.made(3)
    put(world, volume_id, there)
    tell(world)
    assert [row[1] for row in found(world)] == kinds


def test_of_what_ended_after_the_look_a_list_says_nothing(world: World) -> None:
    kept = world.made(3)
    before = world.agent.listing()
    later = world.made(3)
    world.extend(kept, 5)
    world.settle()
    tell(world, before)
    assert found(world) == []
    tell(world)
    assert found(world) == []
    assert later


def test_of_what_was_in_hand_a_list_says_nothing(world: World) -> None:
    world.create(3)
    [command] = world.agent.commands
    outcome = world.agent.work()
    assert outcome is not None
    looked = world.agent.listing()
    # It ended while the driver looked, which had passed that place already.
    seen = Listing(backend=BACKEND, epoch=looked.epoch, tick=looked.tick, volumes=[], in_hand=[command.claim_id])
    world.deliver(outcome)
    tell(world, seen)
    assert found(world) == []


def test_of_what_is_under_way_a_list_says_nothing(world: World) -> None:
    volume_id, other = world.made(3), world.made(3)
    world.extend(volume_id, 5)
    world.delete(other)
    del world.pools["p0"].volumes[other]
    put(world, volume_id, 4)
    tell(world)
    assert found(world) == []


@pytest.mark.parametrize("reported", [True, False])
def test_a_volume_deleted_after_the_look_is_no_orphan(world: World, reported: bool) -> None:
    """Its claims are gone, and nothing but the key of its request tells that they were there."""
    volume_id = world.made(3)
    put(world, "of-others", 2)
    before = world.agent.listing()
    world.delete(volume_id)
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    if reported:
        world.report()
    assert world.rows("SELECT COUNT(*) FROM claims") == [(0,)]
    tell(world, before)
    assert sorted(row[1] for row in found(world)) == ["orphan", "unclear"]
    assert external(world) == 5, "never less than there may be"
    tell(world)
    assert found(world) == [("of-others", "orphan", 2.0, 0.0)]
    assert external(world) == 2


def test_what_is_left_of_a_volume_of_the_past_is_an_orphan_when_it_is_seen_again(world: World) -> None:
    volume_id = world.made(3)
    world.delete(volume_id)
    world.settle()
    put(world, volume_id, 3)
    tell(world)
    assert [row[1] for row in found(world)] == ["unclear"]
    tell(world)
    assert [row[1] for row in found(world)] == ["orphan"]
    tell(world)
    assert [row[1] for row in found(world)] == ["orphan"]


@pytest.mark.parametrize("contained", [True, False])
def test_what_was_let_go_of_counts_as_external_all_the_time(world: World, contained: bool) -> None:
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    if contained:
        world.report()
    world.hosts.set_counters(world.database.run(deletions.unmanage, "req-go", answer.volume_id))
    assert external(world) == 3
    tell(world)
    assert external(world) == 3
    world.report()
    tell(world)
    tell(world)
    assert found(world) == [(answer.volume_id, "orphan", 3.0, 0.0)]
    assert external(world) == 3


@pytest.mark.parametrize(("known", "others"), [(True, 0), (False, 3)])
def test_a_volume_shown_in_two_pools_counts_once_and_what_is_left_of_one_twice(known: bool, others: int) -> None:
    world = World({name: StoragePool(100, 2.0, thin=True, thick=False, storage_id="array") for name in ("p0", "p1")})
    volume_id = world.started().made(3)
    [there] = [name for name, pool in world.pools.items() if volume_id in pool.volumes]
    for pool in world.pools.values():
        pool.volumes[volume_id] = (3, Provisioning.THIN)
    if not known:
        # It was moved to the other pool and let go of there, before the copy that it left could be purged.
        with world.engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM volumes"))
    tell(world)
    assert dict(world.rows("SELECT name, external_gb FROM pools")) == {
        f"{BACKEND}#{name}": 0 if name == there else others for name in world.pools
    }


@pytest.mark.parametrize("when", ["before it was asked for", "while it waited", "while it was made"])
def test_a_list_of_before_takes_nothing_from_what_was_let_go_of(world: World, when: str) -> None:
    before = world.agent.listing()
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    [(claim_id,)] = world.rows("SELECT id FROM claims")
    waiting = world.agent.listing()
    assert (before.in_hand, waiting.in_hand, waiting.volumes) == ([], [claim_id], [])
    early = before if when == "before it was asked for" else waiting
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    world.hosts.set_counters(world.database.run(deletions.unmanage, "req-go", answer.volume_id))
    world.report()
    assert world.rows("SELECT id FROM claims") == [], "a report contains the volume, and nobody claims it"
    if when == "while it was made":
        # The driver looked for so long that all this happened meanwhile.
        early = dataclasses.replace(early, tick=world.agent.next_tick())
    tell(world, early)
    assert external(world) == 3
    tell(world)
    tell(world)
    assert found(world) == [(answer.volume_id, "orphan", 3.0, 0.0)]
    assert external(world) == 3
    del world.pools["p0"].volumes[answer.volume_id]
    tell(world)
    assert external(world) == 0


def test_a_past_epoch_tells_nothing(world: World) -> None:
    put(world, "of-others", 7)
    seen = world.rows("SELECT last_listing_at FROM backends")
    volumes = [ListedVolume(volume_id="of-others", pool="p0", size_gb=7.0)]
    world.database.run(listings.record, 1, 0, 99, volumes)
    assert found(world) == []
    assert world.rows("SELECT last_listing_at FROM backends") == seen


def test_a_list_that_arrives_after_a_later_one_takes_nothing_back(world: World) -> None:
    early = world.agent.listing()
    put(world, "of-others", 7)
    late = world.agent.listing()
    tell(world, late)
    tell(world, early)
    assert found(world) == [("of-others", "orphan", 7.0, 0.0)]
    assert external(world) == 7
    tell(world, late)
    assert external(world) == 7


def test_a_list_that_shows_nothing_new_overtakes_others_all_the_same(world: World) -> None:
    put(world, "of-others", 7)
    early = world.agent.listing()
    del world.pools["p0"].volumes["of-others"]
    tell(world)
    tell(world, early)
    assert (found(world), external(world)) == ([], 0)


def test_an_epoch_that_a_scheduler_of_the_previous_release_has_opened_begins_anew(world: World) -> None:
    """Which knows nothing of the ticks of listings."""
    tell(world)
    volumes = [ListedVolume(volume_id="of-others", pool="p0", size_gb=7.0)]
    world.database.run(
        lambda session: session.execute(sa.update(models.Backend).values(epoch=models.Backend.epoch + 1))
    )
    [(epoch,)] = world.rows("SELECT epoch FROM backends")
    world.database.run(listings.record, 1, epoch, 1, volumes)
    assert found(world) == [("of-others", "orphan", 7.0, 0.0)]


def test_of_lists_that_are_recorded_at_once_the_later_one_stays(world: World) -> None:
    put(world, "of-others", 7)
    early = world.agent.listing()
    del world.pools["p0"].volumes["of-others"]
    late = world.agent.listing()
    look, looks = listings._look, []

    def interrupted(*given: Any) -> Any:
        seen = look(*given)
        looks.append(seen)
        if len(looks) == 1:
            # A scheduler that has a connection of its own. (SQLite lets nobody else write, so only the tick is told.)
            given[0].execute(sa.update(models.Backend).values(listing_tick=early.tick))
        return seen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listings, "_look", interrupted)
        tell(world, late)
    assert len(looks) > 1, "it was done again"
    assert world.rows("SELECT listing_tick FROM backends") == [(late.tick,)]


def test_names_and_sizes_that_no_database_takes_do_not_spoil_a_list(world: World) -> None:
    volume_id = world.made(3)
    odd = ["a\0b", "\udc80", volume_id + " ", "x" * 300, "x" * 299 + "y"]
    volumes = [ListedVolume(volume_id=name, pool="p0", size_gb=1.0) for name in odd]
    volumes += [ListedVolume(volume_id=volume_id, pool="p0", size_gb=3.0)]
    volumes += [ListedVolume(volume_id="odd", pool="p0", size_gb=float("nan"))]
    volumes += [ListedVolume(volume_id="odd", pool="unheard-of", size_gb=9.0)]
    tell(world, Listing(backend=BACKEND, epoch=world.agent.epoch, tick=world.agent.next_tick(), volumes=volumes))
    names = [row[0] for row in found(world)]
    assert volume_id not in names, "nothing else may look like a volume that is there"
    assert {"odd", repr(volume_id + " ")} <= set(names)
    tell(world)
    assert found(world) == []


@pytest.mark.parametrize("number", [10, 20_000])
def test_a_list_takes_as_many_statements_however_long_it_is(world: World, number: int) -> None:
    names = [str(uuid.UUID(int=one)) for one in range(number)]
    claim = {
        "backend_id": 1,
        "pool_id": 1,
        "verb": "create",
        "state": "confirmed",
        "size_gb": 1,
        "physical_gb": 0,
        "target_size_gb": 1,
        "provisioning": "thin",
        "contained": True,
        "end_epoch": 1,
        "end_tick": 1,
    }
    rows = [{"id": name, "volume_id": name, **claim} for name in names]
    with world.engine.begin() as connection:
        connection.execute(sa.insert(models.table(models.Claim)), rows)
    volumes = [ListedVolume(volume_id=name, pool="p0", size_gb=1.0) for name in names[:-2]]
    volumes += [ListedVolume(volume_id=name, pool="p0", size_gb=5.0) for name in (names[-2], "of-others")]
    statements: list[str] = []
    sa.event.listen(world.engine, "before_cursor_execute", lambda *event: statements.append(event[2]))
    world.database.run(listings.record, 1, 1, 99, volumes)
    assert len(statements) < 30, statements
    assert [row[1] for row in found(world)] == ["size", "lost", "orphan"]
