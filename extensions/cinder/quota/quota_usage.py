# SPDX-License-Identifier: Apache-2.0
"""The use of projects, counted from the rows that exist and from the reservations that count."""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota import reservation_ends

#: The parts of a resource's name before the name of a volume type.
TYPED = ("volumes", "gigabytes", "snapshots")

#: The parameter of a statement for the project.
_PROJECT = "project"

#: The column by which parts of one row are joined.
_KEY = "part"

_V, _S, _B, _G, _R = (
    table.c for table in (tables.VOLUMES, tables.SNAPSHOTS, tables.BACKUPS, tables.GROUPS, tables.RESERVATIONS)
)


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource with a limit: ``part`` of it is ``volumes``, ``gigabytes`` and so on, in all types or in one."""

    name: str
    part: str
    volume_type_id: str | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a resource: what exists, and what operations under way add to it."""

    in_use: int = 0
    reserved: int = 0

    @property
    def total(self) -> int:
        """The sum that is compared with a limit."""
        return self.in_use + self.reserved


@dataclass(frozen=True, slots=True)
class Rules:
    """How Cinder counts. ``lifetime`` is that of a reservation without a row in seconds.

    With ``snapshots_use_gigabytes``, the size of a snapshot counts, the contrary of ``no_snapshot_gb_quota``.
    """

    lifetime: float
    snapshots_use_gigabytes: bool = True


def exact(
    connection: sa.Connection, project_id: str, resources: Collection[Resource], rules: Rules
) -> tuple[dict[str, Use], int]:
    """Return the use of resources of a project by name, and the number of its reservations that have ended.

    It is one statement: a row appears in the transaction that ends its reservation, and no statement sees half of it.
    """
    statement, labels = _statement(connection.dialect.name, tuple(resources), rules)
    counted = connection.execute(statement, {_PROJECT: project_id}).mappings().one()
    in_use = dict.fromkeys((resource.name for resource in resources), 0)
    for name, label in labels:
        in_use[name] += int(counted[label] or 0)
    reserved = {resource.name: int(counted[f"r{number}"] or 0) for number, resource in enumerate(resources)}
    return {name: Use(number, reserved[name]) for name, number in in_use.items()}, int(counted["ended"] or 0)


@functools.lru_cache(maxsize=256)
def _statement(
    dialect: str, resources: Sequence[Resource], rules: Rules
) -> tuple[sa.Select[Any], Sequence[tuple[str, str]]]:
    """Return the statement that counts these resources of a project, and the columns that a resource is the sum of."""
    rows: dict[str, list[sa.ColumnElement[Any]]] = {"volumes": [], "snapshots": [], "backups": [], "groups": []}
    labels: list[tuple[str, str]] = []
    for resource in resources:
        for table, column in _columns(resource, rules):
            label = f"c{len(labels)}"
            labels.append((resource.name, label))
            rows[table].append(column.label(label))
    project = sa.bindparam(_PROJECT, type_=sa.String)
    held = _held(dialect, project, [resource.name for resource in resources], rules).subquery()
    # Each part has one row with the same key, so their join has one as well.
    joined: sa.FromClause = held
    used_columns = [column for column in held.c if column.name != _KEY]
    for table, columns in rows.items():
        if columns:
            part = _of_project(table, project, [sa.literal_column("1").label(_KEY), *columns]).subquery()
            joined = joined.join(part, part.c[_KEY] == held.c[_KEY])
            used_columns += [column for column in part.c if column.name != _KEY]
    return sa.select(*used_columns).select_from(joined), labels


def _columns(resource: Resource, rules: Rules) -> Iterable[tuple[str, sa.ColumnElement[Any]]]:
    """Return the tables and the sums over their rows that a resource consists of."""
    of_type = resource.volume_type_id
    match resource.part:
        case "volumes":
            yield "volumes", _number(_V.id, of_type)
        case "gigabytes":
            yield "volumes", _sum(_V.size, of_type)
            if rules.snapshots_use_gigabytes:
                yield "snapshots", _sum(_S.volume_size, of_type)
        case "snapshots":
            yield "snapshots", _number(_S.id, of_type)
        case "backups":
            yield "backups", sa.func.count(_B.id)
        case "backup_gigabytes":
            yield "backups", sa.func.sum(_B.size)
        case "groups":
            yield "groups", sa.func.count(_G.id)


def _number(column: sa.ColumnElement[Any], of_type: str | None) -> sa.ColumnElement[Any]:
    return sa.func.count(column if of_type is None else sa.case((_V.volume_type_id == of_type, column)))


def _sum(column: sa.ColumnElement[Any], of_type: str | None) -> sa.ColumnElement[Any]:
    return sa.func.sum(column if of_type is None else sa.case((_V.volume_type_id == of_type, column)))


def _of_project(
    table: str, project_id: str | sa.BindParameter[str] | None, columns: Collection[sa.ColumnElement[Any]]
) -> sa.Select[Any]:
    """Return a selection from the rows that count; of all projects if ``project_id`` is None."""
    source = {
        "volumes": tables.VOLUMES,
        "snapshots": tables.SNAPSHOTS.outerjoin(tables.VOLUMES, _V.id == _S.volume_id),
        "backups": tables.BACKUPS,
        "groups": tables.GROUPS,
    }[table]
    row = {"volumes": _V, "snapshots": _S, "backups": _B, "groups": _G}[table]
    statement: sa.Select[Any] = sa.select(*columns).select_from(source).where(row.deleted == sa.false())
    if "use_quota" in row:
        statement = statement.where(row.use_quota == sa.true())
    return statement if project_id is None else statement.where(row.project_id == project_id)


def _held(dialect: str, project_id: sa.BindParameter[str], names: Collection[str], rules: Rules) -> sa.Select[Any]:
    """Return the selection of the amounts of reservations that count, and of the number of those that do not."""
    live = (
        sa.select(
            _R.resource,
            _R.delta,
            sa.case((reservation_ends.counts(dialect, rules.lifetime), 1), else_=0).label("counts"),
        )
        .where(_R.project_id == project_id, _R.deleted == sa.false())
        .subquery()
    )
    is_live = sa.and_(live.c.counts == 1, live.c.delta > 0)
    columns: list[sa.ColumnElement[Any]] = [
        sa.literal_column("1").label(_KEY),
        sa.func.sum(1 - live.c.counts).label("ended"),
        *(
            sa.func.sum(sa.case((sa.and_(live.c.resource == name, is_live), live.c.delta), else_=0)).label(f"r{number}")
            for number, name in enumerate(names)
        ),
    ]
    return sa.select(*columns)


def by_project(
    connection: sa.Connection, type_names: Mapping[str, str], rules: Rules, project_id: str | None = None
) -> dict[str, dict[str, Use]]:
    """Return the use of all projects, or of one, by project and resource; ``type_names`` are those of types by id.

    It reads for people: several statements count, and changes between them may show.
    """
    in_use: dict[tuple[str, str], int] = {}

    def add(project: str, part: str, number: int, type_id: str | None) -> None:
        name = type_names.get(type_id or "")
        for resource in (part, f"{part}_{name}") if name is not None and part in TYPED else (part,):
            in_use[project, resource] = in_use.get((project, resource), 0) + int(number or 0)

    gigabytes = "gigabytes" if rules.snapshots_use_gigabytes else None
    no_type = sa.null()
    for table, row, of_type, size, number_part, size_part in (
        ("volumes", _V, _V.volume_type_id, _V.size, "volumes", "gigabytes"),
        ("snapshots", _S, _V.volume_type_id, _S.volume_size, "snapshots", gigabytes),
        ("backups", _B, no_type, _B.size, "backups", "backup_gigabytes"),
        ("groups", _G, no_type, sa.literal(0), "groups", None),
    ):
        columns = [row.project_id.label("project"), of_type.label("type"), sa.func.count(row.id), sa.func.sum(size)]
        statement = _of_project(table, project_id, columns).group_by(row.project_id)
        if of_type is not no_type:
            statement = statement.group_by(of_type)
        for project, type_id, number, total in connection.execute(statement):
            add(project, number_part, number, type_id)
            if size_part is not None:
                add(project, size_part, total, type_id)
    reserved = _reserved(connection, rules, project_id)
    uses: dict[str, dict[str, Use]] = {}
    for project, resource in in_use.keys() | reserved.keys():
        use = Use(in_use.get((project, resource), 0), reserved.get((project, resource), 0))
        uses.setdefault(project, {})[resource] = use
    return uses


def _reserved(connection: sa.Connection, rules: Rules, project_id: str | None) -> dict[tuple[str, str], int]:
    statement = (
        sa.select(_R.project_id, _R.resource, sa.func.sum(_R.delta))
        .where(
            _R.deleted == sa.false(),
            _R.delta > 0,
            reservation_ends.counts(connection.dialect.name, rules.lifetime),
        )
        .group_by(_R.project_id, _R.resource)
    )
    if project_id is not None:
        statement = statement.where(_R.project_id == project_id)
    return {(project, resource): int(delta) for project, resource, delta in connection.execute(statement)}
