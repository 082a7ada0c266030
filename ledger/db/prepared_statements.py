# SPDX-License-Identifier: Apache-2.0
"""Statements on the way of every request: compiled once for each dialect, and executed by the driver's own cursor.

SQLAlchemy prepares each execution anew: parameters, a context, a result with its metadata. That takes 20 to 100
microseconds, also for a statement that SQLite answers in 5. A :class:`Prepared` statement is written with SQLAlchemy
Core like any other and keeps what does not change: the text, the order of the parameters, and the conversions that the
types of its columns need.

Errors of the driver come as from any other statement. Statements that somebody listens to or logs are executed by
SQLAlchemy, which calls the listeners.
"""

import logging
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql import visitors

Parameters = Mapping[str, Any]

#: A text is kept for lists of up to so many values together; it is written anew for longer lists.
_KEPT_VALUES = 16

#: SQLAlchemy logs statements here.
_STATEMENT_LOG = logging.getLogger("sqlalchemy.engine.Engine")

_Conversion = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Form:
    """The text of a statement for one dialect and one length of each list.

    ``keys`` has the statement's parameters in the order of the text, each with whether it is a list, and ``constants``
    the values that the statement itself contains. ``names`` are the names of the values in the text; None if the driver
    takes them by position. ``conversions`` are those of values, by index.
    """

    text: str
    keys: Sequence[tuple[str, bool]]
    constants: Parameters
    names: Sequence[str] | None
    conversions: Sequence[tuple[int, _Conversion]]

    def values(self, parameters: Parameters) -> Any:
        """Return the parameters as the driver takes them: a list, or a dict by the names in the text."""
        by_key = {**self.constants, **parameters} if self.constants else parameters
        values: list[Any] = []
        for key, is_list in self.keys:
            if is_list:
                values += by_key[key]
            else:
                values.append(by_key[key])
        for index, convert in self.conversions:
            values[index] = convert(values[index])
        return values if self.names is None else dict(zip(self.names, values, strict=True))


@dataclass(frozen=True, slots=True)
class _RowForm:
    """The rows of a statement for one dialect. ``conversions`` are those of columns, by index."""

    conversions: Sequence[tuple[int, _Conversion]]
    make_row: Callable[[Sequence[Any]], Any]

    def rows(self, driver_rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Return rows of the driver as named tuples with the values that SQLAlchemy's types give."""
        if not self.conversions:
            return list(map(self.make_row, driver_rows))
        rows = []
        for driver_row in driver_rows:
            row = list(driver_row)
            for index, convert in self.conversions:
                row[index] = convert(row[index])
            rows.append(self.make_row(row))
        return rows


class Prepared:
    """A statement that is compiled once for each dialect.

    ``IN`` gets its list by ``sa.bindparam(name, expanding=True)``. The connection is in a transaction, as that of a
    session is.
    """

    def __init__(self, statement: sa.SelectBase | sa.Update | sa.Delete) -> None:
        self.statement: Any = statement
        self._lists = tuple(
            element.key
            for element in visitors.iterate(statement)
            if isinstance(element, sa.BindParameter) and element.expanding and element.required
        )
        self._compiled: dict[tuple[str, str], Any] = {}
        self._forms: dict[tuple[Any, ...], _Form] = {}
        self._row_forms: dict[tuple[Any, ...], _RowForm] = {}

    def rows(self, connection: sa.Connection, parameters: Parameters) -> list[Any]:
        """Return all rows of a SELECT as named tuples. Raises what ``connection.execute`` raises."""
        if _is_observed(connection):
            return list(connection.execute(self.statement, parameters))
        rows: list[Any] = self._execute(connection, parameters)
        return rows

    def change(self, connection: sa.Connection, parameters: Sequence[Parameters]) -> int:
        """Execute an UPDATE or DELETE with each of these parameters, and return the number of rows that it matched.

        Several executions are sent to the server together. Raises what ``connection.execute`` raises.
        """
        if len(parameters) > 1 or _is_observed(connection):
            return int(connection.execute(self.statement, parameters).rowcount)
        matched: int = self._execute(connection, parameters[0])
        return matched

    def _execute(self, connection: sa.Connection, parameters: Parameters) -> Any:
        """Return the rows of a SELECT, or the number of rows that another statement matched."""
        dialect = connection.dialect
        key = dialect.name, dialect.driver, *[len(parameters[name]) for name in self._lists]
        form = self._forms.get(key) or self._form(dialect, key, parameters)
        values = form.values(parameters)
        cursor: Any = None
        try:
            cursor = connection.connection.cursor()
            cursor.execute(form.text, values)
            columns = cursor.description
            result = cursor.rowcount if columns is None else cursor.fetchall()
        except BaseException as error:
            # The only function that turns errors of drivers into SQLAlchemy's and oslo.db's and drops lost connections.
            connection._handle_dbapi_exception(error, form.text, values, cursor, None)
        cursor.close()
        if columns is None:
            return result
        return (self._row_forms.get(key[:2]) or self._row_form(dialect, columns)).rows(result)

    def _form(self, dialect: sa.Dialect, key: tuple[Any, ...], parameters: Parameters) -> _Form:
        compiled = self._compiled.get(key[:2])
        if compiled is None:
            compiled = self._compiled[key[:2]] = self.statement.compile(dialect=dialect)
            if getattr(compiled, "update_prefetch", None):
                raise TypeError(f"{self.statement} has values that Python computes: it cannot be prepared")
        state = compiled.construct_expanded_state(parameters)
        lists = {name: key for key, names in state.parameter_expansion.items() for name in names}
        names = list((state.positiontup if compiled.positional else None) or state.parameters)
        # The values of a list stand side by side in the text.
        keys = [
            lists.get(name, name)
            for name in names
            if name not in lists or name == state.parameter_expansion[lists[name]][0]
        ]
        binds = {name: bind.type.dialect_impl(dialect).bind_processor(dialect) for name, bind in compiled.binds.items()}
        binds |= state.processors
        form = _Form(
            text=state.statement,
            keys=[(key, key in state.parameter_expansion) for key in keys],
            constants={name: value for name, value in compiled.params.items() if name not in parameters},
            names=None if compiled.positional else names,
            conversions=[
                (index, convert) for index, name in enumerate(names) if (convert := binds.get(name)) is not None
            ],
        )
        if sum(key[2:]) <= _KEPT_VALUES:
            self._forms[key] = form
        return form

    def _row_form(self, dialect: sa.Dialect, description: Sequence[Sequence[Any]]) -> _RowForm:
        """``description`` is that of the driver's cursor, with the driver's type of each column."""
        columns = list(self.statement.selected_columns)
        conversions = [
            column.type.dialect_impl(dialect).result_processor(dialect, driver_column[1])
            for column, driver_column in zip(columns, description, strict=True)
        ]
        keys = [column.key or "" for column in columns]
        make_row: Any = namedtuple("Row", keys, rename=True)._make  # type: ignore[attr-defined]
        form = _RowForm(
            [(index, convert) for index, convert in enumerate(conversions) if convert is not None], make_row
        )
        self._row_forms[dialect.name, dialect.driver] = form
        return form


def _is_observed(connection: sa.Connection) -> bool:
    """Return whether somebody listens to the statements of this connection, or logs them."""
    listeners = connection.dispatch
    return bool(listeners.before_cursor_execute or listeners.before_execute) or _STATEMENT_LOG.isEnabledFor(
        logging.INFO
    )
