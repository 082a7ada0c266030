# SPDX-License-Identifier: Apache-2.0
"""The limit on the number of groups of a project."""

import pytest

from tests.unit.scheduler.world import World
from tonnage.capacity import errors
from tonnage.ledger.catalog import group_types
from tonnage.ledger.catalog import groups as ledger_groups
from tonnage.ledger.db.database import Database
from tonnage.quotas import group_limit
from tonnage.quotas.limits import Resource
from tonnage.quotas.options import Settings


def new_group(database: Database, user_id: str) -> ledger_groups.NewGroup:
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
    """The in-memory ledger of the world."""
    world.database.run(group_types.create, "gold")
    return world.database


@pytest.mark.parametrize("user_id", ["", "someone"])
def test_the_limit_of_a_project_applies_with_and_without_a_user(database: Database, user_id: str) -> None:
    settings = Settings({Resource.GROUPS: 1})
    group_limit.create(database, settings, new_group(database, user_id))
    with pytest.raises(errors.OverQuota):
        group_limit.create(database, settings, new_group(database, user_id))


def test_a_repeated_create_of_a_group_makes_one_group(database: Database) -> None:
    wanted, settings = new_group(database, "someone"), Settings({Resource.GROUPS: 1})
    assert (
        group_limit.create(database, settings, wanted).id
        == group_limit.create(database, settings, wanted).id
        == wanted.id
    )
    with database.reading() as session:
        assert ledger_groups.count(session, "demo") == 1
