# SPDX-License-Identifier: Apache-2.0
"""The catalogue of types, which the modules for volume types and group types share.

A ``project_id`` of None stands for all projects and shows every type. Otherwise the public types and the types that the
project has access to are visible; a type that is not visible raises the same error as a missing one.
"""

import abc
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.claims import group_backends
from tonnage.ledger.db import lost_commits, paging

TypeRow = TypeVar("TypeRow", models.VolumeType, models.GroupType)

SORT_KEYS: paging.SortKeys = {
    "id": lambda model: model.id,
    "name": lambda model: model.name,
    "created_at": lambda model: model.created_at,
    "is_public": lambda model: model.is_public,
}


class NameTaken(errors.Conflict):
    """Another type of the catalogue has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """New values for a type; a field that is None stays as it is."""

    name: str | None = None
    description: str | None = None
    is_public: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A filter for a list of types: public ones, private ones or (None) both, and values by key.

    ``filters`` has keys that the catalogue of the types defines.
    """

    is_public: bool | None = None
    filters: Mapping[str, str] = field(default_factory=dict)


class TypeCatalog(abc.ABC, Generic[TypeRow]):
    """The catalogue of volume types or of group types.

    ``label`` is the name of the resource in error messages, ``specs_attribute`` the attribute of a row with its specs.
    """

    def __init__(self, model: type[TypeRow], label: str, specs_attribute: str) -> None:
        self._model: type[TypeRow] = model
        self._label, self._specs_attribute = label, specs_attribute

    def create(
        self,
        session: orm.Session,
        name: str,
        description: str | None = None,
        is_public: bool = True,
        specs: Mapping[str, str] | None = None,
    ) -> TypeRow:
        """Add a type.

        Raises :class:`NameTaken`, and :class:`~tonnage.capacity.errors.InvalidInput` for an invalid spec.
        """
        specs = specs or {}
        self._check_specs(specs)
        values = {"description": description, "is_public": is_public, self._specs_attribute: specs}
        committed = lost_commits.find_committed(session, self._model, name, **values)
        if committed is not None:
            return committed
        type_row = self._model(
            id=str(uuid.uuid4()),
            name=name,
            description=description,
            is_public=is_public,
            specs=self._spec_values(specs),
        )
        session.add(type_row)
        self._flush(session, name)
        return type_row

    def get(self, session: orm.Session, type_id: str, project_id: str | None = None) -> TypeRow:
        """Return the type with that id. Raises :class:`~tonnage.capacity.errors.NotFound`."""
        return self._find_one(session, self._model.id == type_id, type_id, project_id)

    def find(self, session: orm.Session, name_or_id: str, project_id: str | None = None) -> TypeRow:
        """Return the type with that id or, if there is none, that name.

        Raises :class:`~tonnage.capacity.errors.NotFound`.
        """
        try:
            return self.get(session, name_or_id, project_id)
        except errors.NotFound:
            return self._find_one(session, self._model.name == name_or_id, name_or_id, project_id)

    def page(
        self, session: orm.Session, query: Query, part: paging.Page, project_id: str | None = None
    ) -> Sequence[TypeRow]:
        """Return a page of the types that the project sees.

        Raises :class:`~tonnage.capacity.errors.NotFound` if the project sees no type with the marker's id, and
        :class:`~tonnage.capacity.errors.InvalidInput` for an invalid filter.
        """
        if part.marker is not None:
            self.get(session, part.marker, project_id)
        statement = sa.select(self._model).where(self._visible_to(project_id), *self._conditions(query.filters))
        if query.is_public is not None:
            statement = statement.where(self._model.is_public.is_(query.is_public))
        return session.scalars(paging.apply(statement, self._model, SORT_KEYS, part)).all()

    def update(self, session: orm.Session, type_id: str, changes: Changes) -> TypeRow:
        """Change a type. Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`NameTaken`."""
        type_row = self.lock(session, type_id)
        if changes.name is not None:
            type_row.name = changes.name
        if changes.description is not None:
            type_row.description = changes.description
        if changes.is_public is not None:
            type_row.is_public = changes.is_public
        self._flush(session, type_row.name)
        return type_row

    def delete(self, session: orm.Session, type_id: str) -> None:
        """Delete a type.

        Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.Conflict` for a type in
        use.
        """
        group_backends.purge(session)
        type_row = self.lock(session, type_id)
        in_use = self._prepare_deletion(session, type_row)
        session.delete(type_row)
        try:
            session.flush()
        except db_exc.DBReferenceError:
            raise in_use from None

    def specs_of(self, type_row: TypeRow) -> dict[str, str]:
        """Return the specs of a type."""
        specs: dict[str, str] = getattr(type_row, self._specs_attribute)
        return specs

    def set_specs(self, session: orm.Session, type_id: str, specs: Mapping[str, str]) -> dict[str, str]:
        """Set some specs of a type, keep the others, and return all of them.

        Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.InvalidInput` for an
        invalid spec.
        """
        type_row = self.lock(session, type_id)
        self._check_specs({**self.specs_of(type_row), **specs})
        self._merge_specs(type_row, specs)
        session.flush()
        return self.specs_of(type_row)

    def unset_spec(self, session: orm.Session, type_id: str, key: str) -> None:
        """Remove a spec. Raises :class:`~tonnage.capacity.errors.NotFound` if the type or the spec is missing."""
        type_row = self.lock(session, type_id)
        self.require_spec(type_row, key)
        self._remove_spec(type_row, key)

    def require_spec(self, type_row: TypeRow, key: str) -> str:
        """Return the value of a spec. Raises :class:`~tonnage.capacity.errors.NotFound` for a missing one."""
        specs = self.specs_of(type_row)
        if key not in specs:
            name = self._specs_attribute.replace("_", " ")
            raise errors.NotFound(f"{self._label.title()} {type_row.id} has no {name} with key {key}.")
        return specs[key]

    def lock(self, session: orm.Session, type_id: str) -> TypeRow:
        """Return a type and lock its row until the transaction ends.

        Raises :class:`~tonnage.capacity.errors.NotFound`.
        """
        type_row: TypeRow | None = session.scalar(
            sa.select(self._model).where(self._model.id == type_id).with_for_update()
        )
        if type_row is None:
            raise self._missing(type_id)
        return type_row

    @abc.abstractmethod
    def _spec_values(self, specs: Mapping[str, str]) -> Any:
        """Return specs as the value of a new row's attribute ``specs``."""

    @abc.abstractmethod
    def _merge_specs(self, type_row: TypeRow, specs: Mapping[str, str]) -> None:
        """Set some specs of a locked row."""

    @abc.abstractmethod
    def _remove_spec(self, type_row: TypeRow, key: str) -> None:
        """Remove a spec of a locked row."""

    @abc.abstractmethod
    def _prepare_deletion(self, session: orm.Session, type_row: TypeRow) -> errors.Conflict:
        """Delete the rows that belong to a type.

        Returns the error for a reference that appears in the meantime. Raises
        :class:`~tonnage.capacity.errors.Conflict` for a type in use.
        """

    def _check_specs(self, specs: Mapping[str, str]) -> None:
        """Raise :class:`~tonnage.capacity.errors.InvalidInput` for specs that a type cannot have; by default none."""

    def _conditions(self, filters: Mapping[str, str]) -> Sequence[sa.ColumnElement[bool]]:
        """Return the conditions for the filters of a query. By default there are no filters."""
        return ()

    def _granted_to(self, project_id: str) -> sa.ColumnElement[bool]:
        """Return the condition that a project has access to a private type. By default it has none."""
        return sa.false()

    def _visible_to(self, project_id: str | None) -> sa.ColumnElement[bool]:
        if project_id is None:
            return sa.true()
        return sa.or_(self._model.is_public.is_(True), self._granted_to(project_id))

    def _find_one(
        self, session: orm.Session, condition: sa.ColumnElement[bool], name_or_id: str, project_id: str | None
    ) -> TypeRow:
        type_row: TypeRow | None = session.scalar(sa.select(self._model).where(condition, self._visible_to(project_id)))
        if type_row is None:
            raise self._missing(name_or_id)
        return type_row

    def _missing(self, name_or_id: str) -> errors.NotFound:
        return errors.NotFound(f"{self._label} {name_or_id} could not be found.")

    def _flush(self, session: orm.Session, name: str) -> None:
        try:
            session.flush()
        except db_exc.DBDuplicateEntry:
            raise NameTaken(f"{self._label.title()} {name} already exists.") from None
