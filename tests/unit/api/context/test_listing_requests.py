# SPDX-License-Identifier: Apache-2.0
"""Listings that are taken on request, because a user asks for the contents of the storage."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.api.context.listing_requests import ListingRequests
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.ledger import models
from tonnage.ledger.claims import deletions
from tonnage.ledger.repair import orphans
from tonnage.rpc import contract
from tonnage.rpc.contract import Method
from tonnage.rpc.messages import Answer, ListBackends

DOWN_TIME = 60.0


class Agents:
    """Schedulers that pass each request on to the agent of the world at once. ``asked`` has the requests.

    Before the request of that number they call its function in ``events``.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.asked: list[list[str]] = []
        self.answer = True
        self.events: dict[int, Callable[[], object]] = {}

    def cast(self, method: Method[ListBackends, None], message: ListBackends) -> None:
        assert method == contract.LIST_BACKENDS
        self.events.pop(len(self.asked), lambda: None)()
        self.asked.append(message.backends)
        if self.answer:
            self._world.registration.listings([self._world.agent.listing()])


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    world.report()
    yield world
    world.database.close()


@pytest.fixture
def agents(world: World) -> Agents:
    return Agents(world)


@pytest.fixture
def requests(world: World, agents: Any) -> ListingRequests:
    return ListingRequests(world.database, agents, DOWN_TIME, longest_step=0.1)


def names(world: World) -> list[str]:
    with world.database.reading() as session:
        return [each.name for each in orphans.load(session)]


def test_a_new_listing_is_waited_for(world: World, agents: Agents, requests: ListingRequests) -> None:
    world.pools["p0"].volumes["of-others"] = (5, Provisioning.THIN)
    assert names(world) == []
    assert requests.take() == {}
    assert (names(world), agents.asked) == (["of-others"], [[BACKEND]])


def test_a_former_volume_takes_a_second_listing(world: World, agents: Agents, requests: ListingRequests) -> None:
    """The first listing does not tell whether it was deleted since."""
    volume_id = world.made(3)
    copy = world.pools["p0"].volumes[volume_id]
    world.delete(volume_id)
    world.settle()
    world.report()
    world.pools["p0"].volumes[volume_id] = copy
    assert requests.take([BACKEND]) == {}
    assert names(world) == [volume_id]
    assert 1 <= len(agents.asked) <= 3


def test_an_unmanaged_volume_is_waited_for_until_a_report_contains_it(
    world: World, agents: Agents, requests: ListingRequests
) -> None:
    """Until then no listing tells whether it is an orphan, however many are taken."""
    agents.events[5] = world.report
    [answer] = world.create(3)
    assert isinstance(answer, Answer)
    volume_id = answer.volume_id
    outcome = world.agent.work()
    assert outcome is not None
    world.deliver(outcome)
    world.database.run(deletions.unmanage, world.request_id(), volume_id)
    assert requests.take([BACKEND]) == {}
    assert (names(world), len(agents.asked)) == ([volume_id], 6)


def test_a_backend_without_an_answer_is_named(world: World, agents: Any) -> None:
    agents.answer = False
    stale = ListingRequests(world.database, agents, DOWN_TIME, timeout=0.3).take()
    assert stale.keys() == {BACKEND}
    assert stale[BACKEND].age is not None
    assert agents.asked == [[BACKEND]]


def test_nobody_waits_for_a_backend_that_is_down(world: World, agents: Agents, requests: ListingRequests) -> None:
    silent = sa.update(models.Backend).values(last_report_at=sa.text("'2000-01-01 00:00:00'"))
    world.database.run(lambda session: session.execute(silent) and None)
    assert requests.take().keys() == {BACKEND}
    assert agents.asked == []


def test_a_bus_that_is_away_is_no_error(world: World, agents: Agents, requests: ListingRequests) -> None:
    def unreachable() -> None:
        raise errors.Unavailable("the message bus did not take list_now")

    agents.events[0] = unreachable
    assert requests.take().keys() == {BACKEND}
