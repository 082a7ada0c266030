# SPDX-License-Identifier: Apache-2.0
"""Types and groups in a ledger, for tests of the modules that use them."""

from tests.unit.ledger.records import Records
from tonnage.ledger import models
from tonnage.ledger.catalog import group_types, groups, volume_types


def volume_type(records: Records, name: str = "gold", *, is_public: bool = True, **specs: str) -> str:
    """Add a volume type, and return its id."""
    return records.run(volume_types.create, name, None, is_public, specs).id


def group(records: Records, *volume_type_ids: str, project_id: str = "demo", name: str = "team") -> str:
    """Add a group for volumes of these types, with a group type of its own, and return its id."""
    group_type = records.run(group_types.create, f"type of {name} of {project_id}")
    new_group = groups.NewGroup(
        project_id=project_id,
        user_id="user",
        name=name,
        description=None,
        group_type_id=group_type.id,
        volume_type_ids=volume_type_ids,
    )
    return records.run(groups.create, new_group).id


def row(records: Records, volume_id: str) -> models.Volume:
    """Return the row of a volume."""
    return records.run(lambda session: session.get_one(models.Volume, volume_id))
