# SPDX-License-Identifier: Apache-2.0
"""Quotas and the ledger together: random requests are admitted or refused exactly as the volumes' rows require."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sa
from hypothesis import strategies as st
from sqlalchemy import orm
from sqlalchemy.orm import attributes

from tests.unit.ledger.catalog import test_managed_volumes
from tests.unit.scheduler import ledgers
from tests.unit.scheduler.world import StoragePool, World
from tonnage.capacity import errors
from tonnage.ledger.catalog import type_catalog, volume_types
from tonnage.ledger.claims import deletions, operation_outcomes
from tonnage.ledger.locks import volume_usage
from tonnage.quotas import limits, options, reservations
from tonnage.quotas.limits import Holder, Item, LimitOwner, Limits, Resource, Scope
from tonnage.quotas.quota_check import Usage
from tonnage.rpc.messages import (
    Answer,
    CreateGroup,
    CreateVolume,
    ExtendVolume,
    GroupAnswer,
    MigrateVolume,
    MigrationPolicy,
    RetypeVolume,
)
from tonnage.scheduler.requests.placement_requests import Move
from tonnage.scheduler.requests.request_spec import Lookup

PROJECT = LimitOwner(Holder.PROJECT, "demo")
USER = LimitOwner(Holder.PROJECT, "demo", "u")
VOLUMES, GIGABYTES = Item(Resource.VOLUMES), Item(Resource.GIGABYTES)


def limit(world: World, owner: LimitOwner, values: dict[Item, int]) -> None:
    world.database.run(limits.put, owner, values)


def used(world: World) -> dict[Scope, Usage]:
    """Return the usage by the rows of the volumes, computed apart from Tonnage's code."""
    found: dict[Scope, Usage] = {}

    def add(user: str, kinds: Iterable[str], more: Usage) -> None:
        for scope in (Scope("demo", each, kind) for each in {user, ""} for kind in set(kinds)):
            found[scope] = found.get(scope, Usage()).plus(more)

    for _, user, kind, size in world.rows("SELECT id, user_id, volume_type_id, size_gb FROM volumes"):
        add(user, [kind or "", ""], Usage(1, size))
    pending = (
        "SELECT v.user_id, v.volume_type_id, c.size_gb FROM claims c JOIN volumes v ON v.id = c.volume_id "
        "WHERE c.state = 'pending' AND c.verb = 'extend'"
    )
    for user, kind, size in world.rows(pending):
        add(user, [kind or "", ""], Usage(0, size))
    return found


@dataclass
class Game:
    """A world, and its state as an observer knows it."""

    world: World
    kinds: list[str]
    limits: dict[LimitOwner, dict[Item, int]]

    def judge(self, *demands: tuple[str, str, Usage, bool]) -> bool:
        """Return True if there is quota for all demands.

        A demand is a user, a volume type, the usage, and whether it also counts without regard to the type.
        """
        so_far = used(self.world)
        known = Limits({}, self.limits)
        for user, kind, takes, in_all in demands:
            kinds = {kind, ""} if in_all else {kind}
            for scope in (Scope("demo", each, one) for each in {user, ""} for one in kinds):
                for resource in (Resource.VOLUMES, Resource.GIGABYTES):
                    most, more = known.at(scope, resource), takes.of(resource)
                    if 0 <= most < so_far.get(scope, Usage()).of(resource) + more and more:
                        return False
            for scope in (Scope("demo", each, one) for each in {user, ""} for one in kinds):
                so_far[scope] = so_far.get(scope, Usage()).plus(takes)
        return True

    def check(self) -> None:
        """Trusted counters are never below the real usage, and Tonnage's count equals the rows."""
        truth = used(self.world)
        known = Limits({}, self.limits)
        with self.world.database.reading() as session:
            counted = reservations.sums("demo", volume_usage.count(session, "demo"))
            trusted = reservations.read(
                session, [Scope("demo", u, k) for u in ("", "u", "v") for k in ("", *self.kinds)], 60
            )
        assert {scope: each for scope, each in counted.items() if any(each)} == {
            scope: each for scope, each in truth.items() if any(each)
        }
        for scope, each in trusted.items():
            for resource in (Resource.VOLUMES, Resource.GIGABYTES):
                if known.at(scope, resource) >= 0:
                    assert each.of(resource) >= truth.get(scope, Usage()).of(resource), scope

    def message(self, size: int, kind: int, user: str) -> CreateVolume:
        name = None if kind == 0 else self.kinds[kind - 1]
        return replace(self.world.create_message(size), volume_type=name, user_id=user)

    def create(self, asked: list[tuple[int, int, str]]) -> None:
        """Request several volumes at once, each by itself: later ones are judged after earlier ones."""
        demands = [
            (user, "" if kind == 0 else self.kinds[kind - 1], Usage(1, size), True) for size, kind, user in asked
        ]
        messages = [self.message(*each) for each in asked]
        expected: list[Any] = []
        admitted: list[Any] = []
        for demand in demands:
            expected.append(self.judge(*admitted, demand))
            admitted += [demand] if expected[-1] else []
        answers = self.world.place(list(messages))
        assert [self.has_quota(answer) for answer in answers] == expected

    def group(self, asked: list[tuple[int, int, str]]) -> None:
        demands = [
            (user, "" if kind == 0 else self.kinds[kind - 1], Usage(1, size), True) for size, kind, user in asked
        ]
        expected = self.judge(*demands)
        volumes = [self.message(*each) for each in asked]
        [answer] = self.world.place([CreateGroup(request_id=self.world.request_id(), volumes=volumes)])
        assert self.has_quota(answer) == expected

    def extend(self, number: int, more: int) -> None:
        row = self.pick(number)
        if row is None:
            return
        volume_id, user, kind, size = row
        expected = self.judge((user, kind or "", Usage(0, more), True))
        message = ExtendVolume(request_id=self.world.request_id(), volume_id=volume_id, new_size_gb=size + more)
        assert self.has_quota(self.world.place([message])[0]) == expected

    def retype(self, number: int, to: int) -> None:
        row = self.pick(number)
        if row is None:
            return
        volume_id, user, kind, size = row
        new = self.kinds[to]
        expected = new == kind or self.judge((user, new, Usage(1, size), False))
        message = RetypeVolume(request_id=self.world.request_id(), volume_id=volume_id, volume_type=new)
        assert self.has_quota(self.world.place([message])[0]) == expected

    def delete(self, number: int) -> None:
        row = self.pick(number)
        if row is not None:
            self.world.delete(row[0])

    def work(self, fails: bool) -> None:
        outcome = self.world.agent.work(fails=fails, clean=fails)
        if outcome is not None:
            self.world.deliver(outcome)

    def change(self, volumes: int, gigabytes: int, of_type: int, of_user: int) -> None:
        self.limits = {
            PROJECT: {VOLUMES: volumes, GIGABYTES: gigabytes, Item(Resource.GIGABYTES, self.kinds[0]): of_type},
            USER: {GIGABYTES: of_user},
        }
        for owner, values in self.limits.items():
            limit(self.world, owner, values)

    def pick(self, number: int) -> Any:
        rows = self.world.rows(
            "SELECT id, user_id, volume_type_id, size_gb FROM volumes WHERE status = 'available' ORDER BY id"
        )
        return rows[number % len(rows)] if rows else None

    @staticmethod
    def has_quota(answer: Any) -> bool:
        assert isinstance(answer, (Answer, GroupAnswer)), answer
        assert answer.refusal is None or answer.refusal.excess is not None, answer.refusal
        return answer.refusal is None


ASKED = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.sampled_from("uv")), min_size=1, max_size=3)
LIMITS = st.sampled_from([-1, 0, 3, 6, 9, 14])
STEPS = st.one_of(
    st.tuples(st.just("create"), ASKED),
    st.tuples(st.just("create"), ASKED),
    st.tuples(st.just("group"), ASKED),
    st.tuples(st.just("extend"), st.integers(0, 9), st.integers(1, 4)),
    st.tuples(st.just("retype"), st.integers(0, 9), st.integers(0, 1)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("work"), st.just(False)),
    st.tuples(st.just("work"), st.just(False)),
    st.tuples(st.just("work"), st.booleans()),
    st.tuples(st.just("change"), LIMITS, LIMITS, LIMITS, LIMITS),
)


@hypothesis.settings(max_examples=12, deadline=None)
@hypothesis.given(counted_each_time=st.booleans(), steps=st.lists(STEPS, min_size=8, max_size=24))
def test_random_requests_are_admitted_exactly_within_the_limits(counted_each_time: bool, steps: list[Any]) -> None:
    world = World({"p0": StoragePool(10_000, 2.0, thin=True, thick=False)}).started()
    world.placer.quotas = options.Settings({}, 0.0 if counted_each_time else 60.0)
    kinds = [world.database.run(volume_types.create, name).id for name in ("fast", "slow")]
    game = Game(world, kinds, {})
    game.change(6, 14, 9, -1)
    for name, *arguments in steps:
        getattr(game, name)(*arguments)
        game.check()
    world.check()


def limited(volumes: int = -1, gigabytes: int = -1) -> World:
    world = World({f"p{n}": StoragePool(100, 2.0, thin=True, thick=False) for n in range(2)}).started()
    limit(world, PROJECT, {VOLUMES: volumes, GIGABYTES: gigabytes})
    return world


def statements(world: World, work: Callable[[], object]) -> list[str]:
    """Return the verbs of the statements about quotas that are sent to the database."""
    sent: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if "quota_" in statement:
            sent.append(statement.split()[0])

    sa.event.listen(world.engine, "before_cursor_execute", note)
    work()
    sa.event.remove(world.engine, "before_cursor_execute", note)
    return sent


def test_without_limits_only_the_limits_are_read() -> None:
    world = limited()
    # Before the decision, and again when the bookings have locked their backends.
    assert statements(world, lambda: world.create(1, 2, 3)) == ["SELECT", "SELECT"]
    assert world.rows("SELECT COUNT(*) FROM quota_usages") == [(0,)]


def test_a_batch_of_requests_needs_one_update() -> None:
    world = limited(gigabytes=100)
    world.create(1)
    # Whether there is any limit, the limits, the counters, these again with more in them, and the limits again.
    assert statements(world, lambda: world.create(*[1] * 20)) == ["SELECT", "SELECT", "SELECT", "UPDATE", "SELECT"]


def test_a_quota_refusal_is_stored_as_the_answer_of_the_request() -> None:
    world = limited(gigabytes=5)
    message = world.create_message(6)
    [first] = world.place([message])
    limit(world, PROJECT, {GIGABYTES: 50})
    [again] = world.place([message])
    assert isinstance(first, Answer)
    assert first.refusal is not None
    assert first.refusal.excess is not None
    assert first.refusal.message == (
        "No quota for 6 GiB: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 6G, quota is 5G "
        "and 0G has been consumed."
    )
    assert again == first
    assert isinstance(world.create(6)[0], Answer)


def test_a_request_over_quota_does_not_affect_other_requests() -> None:
    world = limited(volumes=2)
    others = [replace(world.create_message(1), project_id="other") for _ in range(3)]
    answers = world.place([*map(world.create_message, [1, 1, 1]), *others])
    assert [isinstance(each, Answer) and each.pool is not None for each in answers] == [True] * 2 + [False] + [True] * 3


def test_a_refused_request_leaves_its_quota_to_later_ones() -> None:
    world = limited(gigabytes=1000)
    answers = world.create(900, 200)
    assert [isinstance(each, Answer) and each.pool is not None for each in answers] == [False, True]


def test_a_failed_volume_counts_until_it_is_deleted() -> None:
    world = limited(volumes=1)
    [made] = world.create(1)
    assert isinstance(made, Answer)
    while (outcome := world.agent.work(fails=True, clean=True)) is not None:
        world.deliver(outcome)
        world.settle()
    assert not isinstance(world.create(1)[0], errors.TonnageError)
    assert world.rows("SELECT COUNT(*) FROM volumes") == [(1,)]
    world.delete(made.volume_id)
    world.settle()
    [other] = world.create(1)
    assert isinstance(other, Answer)
    assert other.pool is not None


@pytest.mark.parametrize("placed_only", [False, True])
def test_a_volume_in_no_pool_counts_without_its_size_if_configured(placed_only: bool) -> None:
    world = limited(volumes=3, gigabytes=5)
    world.placer.quotas = options.Settings(placed_only=placed_only)
    [made] = world.create(5)
    assert isinstance(made, Answer)
    outcome = world.agent.work(fails=True, clean=True)
    assert outcome is not None
    world.deliver(outcome)
    # While it waits for another pool it counts.
    assert not Game.has_quota(world.create(1)[0])
    world.database.run(operation_outcomes.fail_volume, made.volume_id, "nothing could make it")
    assert world.rows("SELECT status, pool_id FROM volumes") == [("error", None)]
    [over, other] = [Game.has_quota(answer) for answer in world.create(6, 5)]
    assert (over, other) == (False, placed_only)


class Elsewhere:
    """A source of external usage, in GiB by scope."""

    def __init__(self, **used: int) -> None:
        self.used = used
        self.asked: list[list[str]] = []

    def read(self, project_ids: Collection[str]) -> None:
        self.asked.append(sorted(project_ids))

    def used_gb(self, scope: Scope) -> int:
        return 0 if scope.volume_type_id else self.used.get(scope.user_id or "all", 0)


@pytest.mark.parametrize("counter_lifetime", [0.0, 60.0])
def test_external_usage_counts_without_being_stored(counter_lifetime: float) -> None:
    world = limited(gigabytes=20)
    limit(world, USER, {GIGABYTES: 8})
    elsewhere = Elsewhere(all=10, u=3)
    world.placer.quotas = options.Settings({}, counter_lifetime, external_usage=elsewhere)
    [refused, mine, no_more, others, neither] = world.place(
        [
            replace(world.create_message(size), user_id=user)
            for size, user in ((11, "v"), (5, "u"), (1, "u"), (5, "v"), (1, "v"))
        ]
    )
    assert [Game.has_quota(each) for each in (refused, mine, no_more, others, neither)] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert isinstance(refused, Answer)
    assert refused.refusal is not None
    assert refused.refusal.excess is not None
    assert (refused.refusal.excess.limit, refused.refusal.excess.used) == (20, 10)
    assert world.rows("SELECT user_id, gigabytes FROM quota_usages ORDER BY user_id")[:2] == [("", 10), ("u", 5)]
    # The external usage exceeds the limit.
    elsewhere.used["all"] = 100
    assert not Game.has_quota(world.create(1)[0])
    elsewhere.used["all"] = 9
    assert Game.has_quota(world.create(1)[0])


def test_limits_belong_to_the_id_of_a_type() -> None:
    world = limited()
    kind = world.database.run(volume_types.create, "fast")
    limit(world, PROJECT, {Item(Resource.VOLUMES, kind.id): 0})
    world.database.run(volume_types.update, kind.id, type_catalog.Changes(name="rapid"))
    [answer] = world.place([replace(world.create_message(1), volume_type="rapid")])
    assert isinstance(answer, Answer)
    assert answer.refusal is not None
    assert answer.refusal.excess is not None
    assert answer.refusal.excess.resource == "volumes_rapid"
    world.database.run(volume_types.delete, kind.id)
    assert world.rows(f"SELECT COUNT(*) FROM quota_limits WHERE volume_type_id = '{kind.id}'") == [(0,)]


def typed(world: World, of_type: int) -> tuple[str, list[str]]:
    """Return a type with a limit in GiB for the project, and two volumes of 3 GiB without a type."""
    kind = world.database.run(volume_types.create, "fast").id
    limit(world, PROJECT, {Item(Resource.GIGABYTES, kind): of_type})
    return kind, [world.made(3), world.made(3)]


def retype(world: World, volume_id: str, kind: str, policy: MigrationPolicy = MigrationPolicy.NEVER) -> RetypeVolume:
    return RetypeVolume(request_id=world.request_id(), volume_id=volume_id, volume_type=kind, migration_policy=policy)


def test_retypes_of_one_batch_share_the_quota_of_the_type() -> None:
    world = limited()
    kind, made = typed(world, 5)
    answers = world.place([retype(world, volume_id, kind) for volume_id in made])
    assert [Game.has_quota(answer) for answer in answers] == [True, False]
    assert world.rows(f"SELECT gigabytes FROM quota_usages WHERE volume_type_id = '{kind}'") == [(3,)]


@pytest.mark.parametrize("asked", ["extend", "retype"])
def test_a_concurrent_change_is_judged_by_the_current_row(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other request is committed after this one has read the volume."""
    world = limited()
    kind, [volume_id, _] = typed(world, 4)
    if asked == "extend":
        assert Game.has_quota(world.place([retype(world, volume_id, kind)])[0])
        before: dict[str, Any] = {"volume_type_id": None, "volume_type": None}
        message: Any = ExtendVolume(request_id=world.request_id(), volume_id=volume_id, new_size_gb=5)
    else:
        world.extend(volume_id, 5)
        world.settle()
        before = {"size_gb": 3}
        message = retype(world, volume_id, kind)

    def put_back(session: orm.Session, found: Lookup) -> None:
        session.expunge_all()
        for name, value in before.items():
            attributes.set_committed_value(found.volumes[volume_id], name, value)

    # Otherwise the request is read again, as the counter row has to be inserted first.
    world.database.run(reservations.insert_missing, [Scope("demo", "", kind)])
    ledgers.change_after_look_up(monkeypatch, put_back)
    [answer] = world.place([message])
    assert isinstance(answer, Answer)
    assert answer.refusal is not None
    assert answer.refusal.excess is not None
    assert answer.refusal.excess.resource == "gigabytes_fast"


def test_a_migrating_retype_counts_for_both_types() -> None:
    world = limited()
    kind, [volume_id, _] = typed(world, 5)
    # With the new type it would be thick in its pool.
    for pool in world.pools.values():
        pool.thick = True
    world.report()
    world.database.run(volume_types.set_specs, kind, {"provisioning:type": "thick"})
    [answer] = world.place([retype(world, volume_id, kind, MigrationPolicy.ON_DEMAND)])
    assert isinstance(answer, Answer)
    assert answer.pool is not None
    assert world.rows("SELECT verb, state FROM claims WHERE verb = 'migrate'") == [("migrate", "pending")]
    with world.database.reading() as session:
        sums = reservations.sums("demo", volume_usage.count(session, "demo"))
    assert (sums[Scope("demo")], sums[Scope("demo", "", kind)]) == (Usage(2, 6), Usage(1, 3))


@pytest.mark.parametrize("counter_lifetime", [0.0, 60.0])
def test_a_volume_that_moves_to_grow_counts_with_its_new_size(counter_lifetime: float) -> None:
    """It counts once, for the project and for its type, while it moves and afterwards."""
    world = World({"p0": StoragePool(13, 1.0, thin=True, thick=False)}).started()
    world.placer.quotas = replace(world.placer.quotas, counter_lifetime=counter_lifetime)
    specs = {"provisioning:extend_by_migration": "<is> True"}
    kind = world.database.run(lambda session: volume_types.create(session, "growing", specs=specs).id)
    limit(world, PROJECT, {GIGABYTES: 20, Item(Resource.GIGABYTES, kind): 14})
    message = replace(world.create_message(6), volume_type=kind)
    world.place([message])
    world.settle()
    world.pools["p1"] = StoragePool(14, 1.0, thin=True, thick=False)
    world.report()

    def usage() -> tuple[Usage, Usage]:
        with world.database.reading() as session:
            sums = reservations.sums("demo", volume_usage.count(session, "demo"))
        return sums[Scope("demo")], sums[Scope("demo", "", kind)]

    assert Game.has_quota(world.extend(message.volume_id, 14))
    assert world.rows("SELECT verb, size_gb FROM claims WHERE state = 'pending'") == [("migrate", 14)]
    assert usage() == (Usage(1, 14), Usage(1, 14))
    assert [Game.has_quota(answer) for answer in world.create(7, 6)] == [False, True]
    world.settle()
    assert usage() == (Usage(2, 20), Usage(1, 14))
    assert not Game.has_quota(world.extend(message.volume_id, 15))


@pytest.mark.parametrize("counter_lifetime", [0.0, 60.0])
def test_a_migrating_volume_counts_once_and_an_unmanaged_one_not_at_all(counter_lifetime: float) -> None:
    world = World({name: StoragePool(100, 2.0, thin=True, thick=False) for name in ("p0", "p1")}).started()
    world.placer.quotas = replace(world.placer.quotas, counter_lifetime=counter_lifetime)
    limit(world, PROJECT, {VOLUMES: 2, GIGABYTES: 10})
    volume_id = world.made(8)

    def fits(size: int) -> bool:
        [answer] = world.create(size)
        assert isinstance(answer, Answer)
        assert answer.refusal is None or answer.refusal.excess is not None
        return answer.refusal is None

    [moved] = world.place([Move(MigrateVolume(request_id=world.request_id(), volume_id=volume_id))])
    assert isinstance(moved, Answer)
    assert moved.refusal is None
    assert world.rows("SELECT COUNT(*), SUM(size_gb) FROM claims WHERE volume_id IS NOT NULL") == [(2, 16)]
    assert [fits(3), fits(1), fits(1)] == [False, True, False]
    world.settle()
    assert not fits(1)
    world.database.run(deletions.unmanage, world.request_id(), volume_id)
    assert [fits(10), fits(9), fits(1)] == [False, True, False]


def test_usage_without_a_limit_counts_once_a_limit_is_set() -> None:
    world = limited(gigabytes=10)
    world.create(1)
    limit(world, PROJECT, {GIGABYTES: -1})
    world.create(8)
    limit(world, PROJECT, {GIGABYTES: 10})
    [answer] = world.create(2)
    assert isinstance(answer, Answer)
    assert answer.refusal is not None


def test_a_managed_volume_counts_with_its_real_size() -> None:
    world = test_managed_volumes.with_files({"strange": 8})
    limit(world, PROJECT, {GIGABYTES: 10})
    world.create(1)
    test_managed_volumes.manage(world, "strange", 8)
    [answer] = world.create(2)
    assert isinstance(answer, Answer)
    assert answer.refusal is not None
