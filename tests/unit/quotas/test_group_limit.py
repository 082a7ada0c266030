# SPDX-License-Identifier: Apache-2.0
"""How many groups a project may have, whoever asks for them."""

import pytest

from tests.unit.scheduler.world import World
from tonnage.capacity import errors
from tonnage.ledger.catalog import group_types
from tonnage.ledger.catalog import groups as ledger_groups
from tonnage.ledger.db.database import Database
from tonnage.quotas import group_limit
from tonnage.quotas.limits import Resource
from tonnage.quotas.options import Settings


def asked(database: Database, user_id: str) -> ledger_groups.NewGroup:
    with database.reading() as session:
        kind = group_types.find(session, "gold")
    return ledger_groups.NewGroup(
        project_id="demo", user_id=user_id, name=None, description=None, group_type_id=kind.id, volume_type_ids=()
    )


@pytest.fixture
def world() -> World:
    return World({}).started()


@pytest.fixture
def database(world: World) -> Database:
    """A ledger in memory, which ends with its world."""
    world.database.run(group_types.create, "gold")
    return world.database


@pytest.mark.parametrize("user_id", ["", "someone"])
def test_the_limit_of_a_project_counts_for_all_its_users_and_for_nobody(database: Database, user_id: str) -> None:
    settings = Settings({Resource.GROUPS: 1})
    group_limit.create(database, settings, asked(database, user_id))
    with pytest.raises(errors.OverQuota):
        group_limit.create(database, settings, asked(database, user_id))


def test_one_that_is_made_twice_as_nobody_knows_of_the_first_time_is_one(database: Database) -> None:
    wanted, settings = asked(database, "someone"), Settings({Resource.GROUPS: 1})
    assert (
        group_limit.create(database, settings, wanted).id
        == group_limit.create(database, settings, wanted).id
        == wanted.id
    )
    with database.reading() as session:
        assert ledger_groups.count(session, "demo") == 1
