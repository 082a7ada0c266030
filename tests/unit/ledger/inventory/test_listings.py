# SPDX-License-Identifier: Apache-2.0
"""Listings of volumes compared with the ledger; the listings come from the world's agent."""

import dataclasses
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.ledger import faults
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.request import Provisioning
from tonnage.ledger import models
from tonnage.ledger.claims import deletions
from tonnage.ledger.inventory import listings
from tonnage.rpc.messages import Answer, ListedVolume, Listing


@pytest.fixture
def world() -> World:
    return World({"p0": StoragePool(100, 2.0, thin=True, thick=False)}).started()


def record(world: World, listing: Listing | None = None) -> None:
    [receipt] = world.registration.listings([listing or world.agent.listing()])
    assert not isinstance(receipt, Exception)


def discrepancies(world: World) -> list[tuple[Any, ...]]:
    return world.rows("SELECT volume_id, category, listed_gb, ledger_gb FROM discrepancies ORDER BY volume_id")


def external(world: World) -> float:
    [(size,)] = world.rows("SELECT external_gb FROM pools")
    assert world.hosts.entries[f"{BACKEND}#p0"].counters.external == size, "the scheduler knows it too"
    return float(size)


def put_file(world: World, name: str, size: float) -> None:
    world.pools["p0"].volumes[name] = (size, Provisioning.THIN)  # type: ignore[assignment]


def test_a_listing_that_matches_the_ledger_has_no_discrepancies(world: World) -> None:
    world.made(3)
    assert world.rows("SELECT last_listing_at FROM backends") != [(None,)], "the hello came with one"
    record(world)
    assert discrepancies(world) == []


def test_an_unclaimed_copy_is_an_orphan_until_it_is_gone(world: World) -> None:
    put_file(world, "of-others", 7.25)
    put_file(world, "more", 1.5)
    record(world)
    assert discrepancies(world) == [("more", "orphan", 1.5, 0.0), ("of-others", "orphan", 7.25, 0.0)]
    assert external(world) == 8.75
    [since] = world.rows("SELECT seen_at FROM discrepancies WHERE volume_id = 'more'")
    del world.pools["p0"].volumes["of-others"]
    record(world)
    assert discrepancies(world) == [("more", "orphan", 1.5, 0.0)]
    assert world.rows("SELECT seen_at FROM discrepancies") == [since], "what is the same is not written again"
    assert external(world) == 1.5


def test_a_volume_that_has_disappeared_is_lost_and_stays_counted(world: World) -> None:
    volume_id = world.made(3)
    del world.pools["p0"].volumes[volume_id]
    record(world)
    assert discrepancies(world) == [(volume_id, "lost", 0.0, 3.0)]
    assert world.rows("SELECT allocated_capacity_gb FROM pools") == [(3,)]
    put_file(world, volume_id, 3)
    record(world)
    assert discrepancies(world) == []


@pytest.mark.parametrize(("listed_size", "kinds"), [(2.01, []), (3.0, []), (3.01, ["size"]), (2.0, ["size"])])
def test_sizes_are_compared_after_rounding_up(world: World, listed_size: float, kinds: list[str]) -> None:
    volume_id = world.made(3)
    put_file(world, volume_id, listed_size)
    record(world)
    assert [row[1] for row in discrepancies(world)] == kinds


def test_a_listing_proves_nothing_about_claims_that_ended_after_the_look(world: World) -> None:
    kept = world.made(3)
    before = world.agent.listing()
    later = world.made(3)
    world.extend(kept, 5)
    world.settle()
    record(world, before)
    assert discrepancies(world) == []
    record(world)
    assert discrepancies(world) == []
    assert later


def test_a_listing_proves_nothing_about_claims_in_hand(world: World) -> None:
    world.create(3)
    [command] = world.agent.commands
    outcome = world.agent.work()
    assert outcome is not None
    looked = world.agent.listing()
    # It ended while the driver looked, after the driver had passed that place.
    seen = Listing(backend=BACKEND, epoch=looked.epoch, tick=looked.tick, volumes=[], in_hand=[command.claim_id])
    world.deliver(outcome)
    record(world, seen)
    assert discrepancies(world) == []


def test_a_listing_proves_nothing_about_pending_operations(world: World) -> None:
    volume_id, other = world.made(3), world.made(3)
    world.extend(volume_id, 5)
    world.delete(other)
    del world.pools["p0"].volumes[other]
    put_file(world, volume_id, 4)
    record(world)
    assert discrepancies(world) == []


@pytest.mark.parametrize("reported", [True, False])
def test_a_volume_deleted_after_the_look_is_no_orphan(world: World, reported: bool) -> None:
    """Its claims are gone, and only the key of its request shows that it existed."""
    volume_id = world.made(3)
    put_file(world, "of-others", 2)
    before = world.agent.listing()
    world.delete(volume_id)
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    if reported:
        world.report()
    assert world.rows("SELECT COUNT(*) FROM claims") == [(0,)]
    record(world, before)
    assert sorted(row[1] for row in discrepancies(world)) == ["orphan", "unclear"]
    assert external(world) == 5, "never less than there may be"
    record(world)
    assert discrepancies(world) == [("of-others", "orphan", 2.0, 0.0)]
    assert external(world) == 2


def test_a_copy_of_a_deleted_volume_is_an_orphan_in_the_second_listing(world: World) -> None:
    volume_id = world.made(3)
    world.delete(volume_id)
    world.settle()
    put_file(world, volume_id, 3)
    record(world)
    assert [row[1] for row in discrepancies(world)] == ["unclear"]
    record(world)
    assert [row[1] for row in discrepancies(world)] == ["orphan"]
    record(world)
    assert [row[1] for row in discrepancies(world)] == ["orphan"]


@pytest.mark.parametrize("contained", [True, False])
def test_an_unmanaged_volume_counts_as_external_all_the_time(world: World, contained: bool) -> None:
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    if contained:
        world.report()
    world.hosts.set_counters(world.database.run(deletions.unmanage, "req-go", answer.volume_id))
    assert external(world) == 3
    record(world)
    assert external(world) == 3
    world.report()
    record(world)
    record(world)
    assert discrepancies(world) == [(answer.volume_id, "orphan", 3.0, 0.0)]
    assert external(world) == 3


@pytest.mark.parametrize(("known", "others"), [(True, 0), (False, 3)])
def test_a_volume_listed_in_two_pools_counts_once_but_its_orphans_twice(known: bool, others: int) -> None:
    world = World({name: StoragePool(100, 2.0, thin=True, thick=False, storage_id="array") for name in ("p0", "p1")})
    volume_id = world.started().made(3)
    [own_pool] = [name for name, pool in world.pools.items() if volume_id in pool.volumes]
    for pool in world.pools.values():
        pool.volumes[volume_id] = (3, Provisioning.THIN)
    if not known:
        # The volume was moved to the other pool and unmanaged there, before its old copy could be purged.
        with world.engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM volumes"))
    record(world)
    assert dict(world.rows("SELECT name, external_gb FROM pools")) == {
        f"{BACKEND}#{name}": 0 if name == own_pool else others for name in world.pools
    }


@pytest.mark.parametrize("when", ["before it was asked for", "while it waited", "while it was made"])
def test_an_older_listing_does_not_uncount_an_unmanaged_volume(world: World, when: str) -> None:
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
        # The driver's look took so long that all this happened meanwhile.
        early = dataclasses.replace(early, tick=world.agent.next_tick())
    record(world, early)
    assert external(world) == 3
    record(world)
    record(world)
    assert discrepancies(world) == [(answer.volume_id, "orphan", 3.0, 0.0)]
    assert external(world) == 3
    del world.pools["p0"].volumes[answer.volume_id]
    record(world)
    assert external(world) == 0


def test_a_listing_of_a_past_epoch_is_ignored(world: World) -> None:
    put_file(world, "of-others", 7)
    seen = world.rows("SELECT last_listing_at FROM backends")
    volumes = [ListedVolume(volume_id="of-others", pool="p0", size_gb=7.0)]
    world.database.run(listings.record, 1, 0, 99, volumes)
    assert discrepancies(world) == []
    assert world.rows("SELECT last_listing_at FROM backends") == seen


def test_a_listing_that_arrives_late_is_ignored(world: World) -> None:
    early = world.agent.listing()
    put_file(world, "of-others", 7)
    late = world.agent.listing()
    record(world, late)
    record(world, early)
    assert discrepancies(world) == [("of-others", "orphan", 7.0, 0.0)]
    assert external(world) == 7
    record(world, late)
    assert external(world) == 7


def test_a_listing_without_changes_supersedes_older_ones_too(world: World) -> None:
    put_file(world, "of-others", 7)
    early = world.agent.listing()
    del world.pools["p0"].volumes["of-others"]
    record(world)
    record(world, early)
    assert (discrepancies(world), external(world)) == ([], 0)


def test_ticks_start_again_in_each_epoch(world: World) -> None:
    record(world)
    volumes = [ListedVolume(volume_id="of-others", pool="p0", size_gb=7.0)]
    world.database.run(
        lambda session: session.execute(sa.update(models.Backend).values(epoch=models.Backend.epoch + 1))
    )
    [(epoch,)] = world.rows("SELECT epoch FROM backends")
    world.database.run(listings.record, 1, epoch, 1, volumes)
    assert discrepancies(world) == [("of-others", "orphan", 7.0, 0.0)]


def test_of_concurrent_listings_the_later_one_stays(world: World) -> None:
    put_file(world, "of-others", 7)
    early = world.agent.listing()
    del world.pools["p0"].volumes["of-others"]
    late = world.agent.listing()
    ticks = []

    def interrupt(connection: sa.Connection) -> None:
        """Record a listing as another scheduler does.

        SQLite permits no second writer, so only the tick is written, in the same transaction.
        """
        ticks.append(early.tick)
        if len(ticks) == 1:
            connection.execute(sa.update(models.Backend).values(listing_tick=early.tick))

    with faults.before(world.engine, "UPDATE backends SET listing_epoch", interrupt):
        record(world, late)
    assert len(ticks) > 1, "it was done again"
    assert world.rows("SELECT listing_tick FROM backends") == [(late.tick,)]


def test_invalid_names_and_sizes_do_not_spoil_a_listing(world: World) -> None:
    volume_id = world.made(3)
    odd = ["a\0b", "\udc80", volume_id + " ", "x" * 300, "x" * 299 + "y"]
    volumes = [ListedVolume(volume_id=name, pool="p0", size_gb=1.0) for name in odd]
    volumes += [ListedVolume(volume_id=volume_id, pool="p0", size_gb=3.0)]
    volumes += [ListedVolume(volume_id="odd", pool="p0", size_gb=float("nan"))]
    volumes += [ListedVolume(volume_id="odd", pool="unheard-of", size_gb=9.0)]
    record(world, Listing(backend=BACKEND, epoch=world.agent.epoch, tick=world.agent.next_tick(), volumes=volumes))
    names = [row[0] for row in discrepancies(world)]
    assert volume_id not in names, "nothing else may look like a volume that is there"
    assert {"odd", volume_id + " "} <= set(names)
    assert sum(name.startswith("x" * 200) for name in names) == 2, "one would hide the other"
    assert max(map(len, names)) == 255
    record(world)
    assert discrepancies(world) == []


@pytest.mark.parametrize("number", [10, 20_000])
def test_the_number_of_statements_does_not_depend_on_the_length_of_a_listing(world: World, number: int) -> None:
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
    assert [row[1] for row in discrepancies(world)] == ["size", "lost", "orphan"]
