# SPDX-License-Identifier: Apache-2.0
"""Group types and their specs. Private group types are visible only with a ``project_id`` of None."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog.type_catalog import TypeCatalog


class GroupTypeCatalog(TypeCatalog[models.GroupType]):
    """The catalogue of group types. A column of the type's row has the specs."""

    def __init__(self) -> None:
        super().__init__(models.GroupType, "Group type", "specs")

    def _spec_values(self, specs: Mapping[str, str]) -> Any:
        return dict(specs)

    def _merge_specs(self, group_type: models.GroupType, specs: Mapping[str, str]) -> None:
        group_type.specs = {**group_type.specs, **specs}

    def _remove_spec(self, group_type: models.GroupType, key: str) -> None:
        group_type.specs = {name: value for name, value in group_type.specs.items() if name != key}

    def _prepare_deletion(self, session: orm.Session, group_type: models.GroupType) -> errors.Conflict:
        in_use = errors.Conflict(f"Group type {group_type.name!r} is still in use by a group.")
        if session.scalar(sa.select(sa.exists().where(models.Group.group_type_id == group_type.id))):
            raise in_use
        return in_use


CATALOG = GroupTypeCatalog()

# The functions of the module.
create = CATALOG.create
get = CATALOG.get
find = CATALOG.find
page = CATALOG.page
update = CATALOG.update
delete = CATALOG.delete
set_specs = CATALOG.set_specs
unset_spec = CATALOG.unset_spec
lock = CATALOG.lock
