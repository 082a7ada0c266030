# SPDX-License-Identifier: Apache-2.0
"""Volume types and their extra specs. A private type is visible to the projects with access to it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors, type_specs
from tonnage.ledger import models
from tonnage.ledger.catalog import filter_values
from tonnage.ledger.catalog.type_catalog import TypeCatalog
from tonnage.ledger.db import dialects
from tonnage.ledger.locks import pool_counters

#: Keys that filter a list of volume types. The value of ``extra_specs`` has the format of
#: :mod:`tonnage.ledger.catalog.filter_values`.
FILTERS = frozenset({"extra_specs", "name"})

#: The name of the type that the migrations create, for volumes that are created without a type.
DEFAULT = "__DEFAULT__"


class VolumeTypeCatalog(TypeCatalog[models.VolumeType]):
    """The catalogue of volume types. Each extra spec is a row."""

    def __init__(self) -> None:
        super().__init__(models.VolumeType, "Volume type", "extra_specs")

    def names(self, session: orm.Session, project_id: str | None = None) -> dict[str, str]:
        """Return the names of the types that the project sees, by id, in the order of the names."""
        volume_type = models.VolumeType
        rows = session.execute(
            sa.select(volume_type.id, volume_type.name).where(self._visible_to(project_id)).order_by(volume_type.name)
        )
        return {row[0]: row[1] for row in rows}

    def _check_specs(self, specs: Mapping[str, str]) -> None:
        type_specs.check(specs)

    def _spec_values(self, specs: Mapping[str, str]) -> Any:
        return [models.ExtraSpec(key=key, value=value) for key, value in specs.items()]

    def _merge_specs(self, volume_type: models.VolumeType, specs: Mapping[str, str]) -> None:
        by_key = {spec.key: spec for spec in volume_type.specs}
        for key, value in specs.items():
            if key in by_key:
                by_key[key].value = value
            else:
                volume_type.specs.append(models.ExtraSpec(key=key, value=value))

    def _remove_spec(self, volume_type: models.VolumeType, key: str) -> None:
        volume_type.specs.remove(next(spec for spec in volume_type.specs if spec.key == key))

    def _conditions(self, filters: Mapping[str, str]) -> Sequence[sa.ColumnElement[bool]]:
        volume_type, spec = models.VolumeType, models.ExtraSpec
        conditions: list[sa.ColumnElement[bool]] = []
        if "name" in filters:
            conditions.append(volume_type.name == filters["name"])
        for key, value in filter_values.parse(filters.get("extra_specs", "{}"), "extra_specs").items():
            has_value = _lists_zone(value) if key == type_specs.ZONES else spec.value == value
            conditions.append(sa.exists().where(spec.volume_type_id == volume_type.id, spec.key == key, has_value))
        return conditions

    def _granted_to(self, project_id: str) -> sa.ColumnElement[bool]:
        access = models.TypeAccess
        return sa.exists().where(access.volume_type_id == models.VolumeType.id, access.project_id == project_id)

    def _prepare_deletion(self, session: orm.Session, volume_type: models.VolumeType) -> errors.Conflict:
        """Raise Conflict while a volume has the type, is being retyped to it, or a group allows it."""
        claim = models.Claim
        if session.scalar(
            sa.select(sa.exists().where(claim.volume_type_id == volume_type.id, claim.state == pool_counters.PENDING))
        ):
            raise errors.Conflict(f"Volume type {volume_type.name!r} is in use by a volume that is being retyped.")
        volumes = session.scalar(
            sa.select(sa.func.count()).select_from(models.Volume).where(models.Volume.volume_type_id == volume_type.id)
        )
        if volumes:
            raise errors.Conflict(
                f"Volume type {volume_type.name!r} is in use by {volumes} volume(s); delete them first."
            )
        group = models.GroupVolumeType
        groups = session.scalar(
            sa.select(sa.func.count()).select_from(group).where(group.volume_type_id == volume_type.id)
        )
        if groups:
            raise errors.Conflict(
                f"Volume type {volume_type.name!r} is in use by {groups} group(s); delete them first."
            )
        for of_type in (models.TypeAccess, models.TypeQos, models.QuotaLimit):
            session.execute(sa.delete(of_type).where(of_type.volume_type_id == volume_type.id))
        return errors.Conflict(f"Volume type {volume_type.name!r} is in use by a volume or a group.")


def _lists_zone(zone: str) -> sa.ColumnElement[bool]:
    """Return the condition that a zone is one of the list in a spec. Blanks do not count, as they do around commas."""
    separator = type_specs.SEPARATOR
    listed = sa.literal(separator).concat(sa.func.replace(models.ExtraSpec.value, " ", "")).concat(separator)
    # LIKE would ignore the case on some databases.
    return listed != sa.func.replace(listed, f"{separator}{zone.replace(' ', '')}{separator}", "")


@dataclass(frozen=True, slots=True)
class TypeSpecs:
    """The part of a volume type that decisions read."""

    id: str
    name: str
    extra_specs: Mapping[str, str]
    qos_specs: Mapping[str, str]


_TYPE, _SPEC = models.table(models.VolumeType), models.table(models.ExtraSpec)
_TYPE_QOS, _QOS = models.table(models.TypeQos), models.table(models.QosSpecs)
#: One row for each extra spec. Each batch of requests reads it, so it bypasses the ORM.
_READ_SPECS = (
    sa.select(_TYPE.c.id, _TYPE.c.name, _SPEC.c.key, _SPEC.c.value, _QOS.c.specs)
    .select_from(_TYPE)
    .outerjoin(_SPEC, _SPEC.c.volume_type_id == _TYPE.c.id)
    .outerjoin(_TYPE_QOS, _TYPE_QOS.c.volume_type_id == _TYPE.c.id)
    .outerjoin(_QOS, _QOS.c.id == _TYPE_QOS.c.qos_specs_id)
    .where(
        sa.or_(
            _TYPE.c.id.in_(sa.bindparam("ids", expanding=True)),
            _TYPE.c.name.in_(sa.bindparam("names", expanding=True)),
        )
    )
)


def read_specs(session: orm.Session, references: Collection[str]) -> dict[str, TypeSpecs]:
    """Return the types with these ids or names, by id and by name; an id wins over a name."""
    by_id: dict[str, TypeSpecs] = {}
    for chunk in dialects.in_chunks(references):
        rows = session.connection().execute(_READ_SPECS, {"ids": chunk, "names": chunk})
        extra_specs: dict[str, dict[str, str]] = {}
        for type_id, name, key, value, qos_specs in rows:
            if type_id not in extra_specs:
                extra_specs[type_id] = {}
                by_id[type_id] = TypeSpecs(type_id, name, extra_specs[type_id], qos_specs or {})
            if key is not None:
                extra_specs[type_id][key] = value
    return {type_specs.name: type_specs for type_specs in by_id.values()} | by_id


CATALOG = VolumeTypeCatalog()

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
names = CATALOG.names
