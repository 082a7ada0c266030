# SPDX-License-Identifier: Apache-2.0
"""How many groups a project may have, whoever asks for them."""

import pytest

from tests.unit.scheduler.world import World
from tonnage.capacity import errors
from tonnage.ledger import group_types
from tonnage.ledger import groups as ledger_groups
from tonnage.quotas import groups
from tonnage.quotas.limits import Resource
from tonnage.quotas.options import Settings


@pytest.mark.parametrize("user_id", ["", "someone"])
def test_the_limit_of_a_project_counts_for_all_its_users_and_for_nobody(user_id: str) -> None:
    database = World({}).started().database
    kind = database.run(group_types.create, "gold")
    settings = Settings({Resource.GROUPS: 1})
    wanted = ledger_groups.NewGroup(
        project_id="demo", user_id=user_id, name=None, description=None, group_type_id=kind.id, volume_type_ids=()
    )
    groups.create(database, settings, wanted)
    with pytest.raises(errors.OverQuota):
        groups.create(database, settings, wanted)
