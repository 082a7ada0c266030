# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.world import LEASE, StoragePool, World
from tonnage.ledger.inventory import pending_claims


def test_commands_for_a_backend_that_was_down_are_sent_as_soon_as_it_is_up() -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)})
    world.start_agent()
    world.report()
    world.create(3)
    world.pass_time(61)
    world.hosts.update_statuses(world.now)
    world.start_agent()
    assert not world.agent.commands
    world.report()
    world.now += 1
    with world.database.reading() as session:
        pending = pending_claims.load(session)
    world.dispatcher.catch_up(pending)
    # The agent cannot tell whether an earlier process of it has run the command.
    assert [(command.size_gb, command.sent_before) for command in world.agent.commands] == [(3, True)]


def test_the_first_command_of_a_claim_has_not_been_sent_before() -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    world.create(3)
    assert [(command.size_gb, command.sent_before) for command in world.agent.commands] == [(3, False)]


def test_a_command_without_news_for_a_lease_is_sent_again() -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    world.lossy = True
    world.create(3)
    world.lossy = False
    with world.database.reading() as session:
        pending = pending_claims.load(session)
    world.now += LEASE - 1
    world.dispatcher.catch_up(pending)
    assert not world.agent.commands
    world.now += 1
    world.dispatcher.catch_up(pending)
    assert [command.size_gb for command in world.agent.commands] == [3]
