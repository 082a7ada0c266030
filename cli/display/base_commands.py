# SPDX-License-Identifier: Apache-2.0
"""Base classes of commands: :class:`Command`, and on cliff's formatters :class:`Lister` and :class:`ShowOne`.

The help of a command is the docstring of its class, whose first sentence stands in the list of commands. ``--help``
must not wait for the libraries of a command, so its module imports them only in the method that runs it.
"""

import abc
import argparse
import inspect
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from cliff import command, lister, show

from tonnage.cli.display import table_columns, tables
from tonnage.cli.display.table_columns import Column, Part

if TYPE_CHECKING:
    from oslo_config import cfg

JSON = "print JSON instead of tables"

#: Modules with the options of commands that read the ledger, and of commands that ask a scheduler. The address of the
#: database may contain ``$state_path``, which is one of the first.
LEDGER = ("tonnage.rpc.options", "tonnage.ledger.db.options", "tonnage.ledger.inventory.service_options")
SCHEDULER = ("tonnage.rpc.options", "tonnage.api.options", "tonnage.scheduler.configuration.settings")

#: The help of options of cliff, some of which take other names here than cliff says.
_HELP = {
    "columns": "show this column; can be repeated",
    "sort_columns": "sort by this column, unknown values last; can be repeated",
}

#: Seconds between two rounds of ``--watch``: usual, least and most.
WATCH_SECONDS = 2.0
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 86400


class Command(command.Command):
    """A command with a configuration."""

    #: The modules whose options the configuration has; without any, no configuration is read.
    options: ClassVar[Sequence[str]] = ()
    #: The title of the group of commands in the help of the program.
    group: ClassVar[str] = "commands"
    #: The end of the help.
    exit_statuses: ClassVar[str] = ""
    #: The names of the commands below this one. The program sets them.
    subcommands: Sequence[str] = ()
    #: The configuration. The program sets it before it runs the command.
    conf: "cfg.ConfigOpts"

    def get_description(self) -> str:
        """Return the docstring as one paragraph."""
        return " ".join((inspect.getdoc(type(self)) or "").split())

    def get_epilog(self) -> str:
        """Return the exit statuses.

        cliff's method also looks up the package of the command, which takes a tenth of a second.
        """
        return self.exit_statuses

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser, with the arguments of this command."""
        parser = super().get_parser(prog_name)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of this command."""


class _Output(Command):
    """The output of a command by cliff's formatters.

    ``columns`` are all columns, by which users choose. :attr:`status` is the exit status; a command may set it.
    """

    columns: ClassVar[Sequence[Column]]
    #: Whether it has the option ``--watch``: a command that changes something has not.
    can_repeat: ClassVar[bool] = True
    _formatter_group: Any
    status = 0

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser, with the option to repeat the output if there is one."""
        self._parser = parser = super().get_parser(prog_name)
        self._formatter_group.description = f"columns: {', '.join(dict.fromkeys(c.key for c in self.columns))}"
        for action in parser._actions:
            action.help = _HELP.get(action.dest, action.help)
        if self.can_repeat:
            parser.add_argument(
                "--watch",
                nargs="?",
                const=WATCH_SECONDS,
                type=seconds,
                metavar="SECONDS",
                help=f"repeat it until Ctrl-C (default: every {WATCH_SECONDS:g} seconds)",
            )
        return parser

    def _load_formatter_plugins(self) -> Any:
        """Return cliff's formatters, with a table that aligns capacities on the right."""
        formatters: Any = super()._load_formatter_plugins()  # type: ignore[misc]
        formatters["table"].obj = tables.Formatter()
        return formatters

    def chosen(self, keys: Sequence[str], columns: Sequence[Column]) -> list[Column]:
        """Return the columns with these keys. An unknown one is a usage error."""
        by_key = {column.key: column for column in columns}
        for key in keys:
            if key not in by_key:
                self._parser.error(f"there is no column {key} here: the columns are {', '.join(by_key)}")
        return [by_key[key] for key in keys]


class Lister(_Output, lister.Lister):
    """A command that lists rows.

    ``empty`` is printed instead of a table without rows. With ``has_json`` it has the option ``--json``, which prints
    the columns on one line, and with ``has_long`` the option ``--long``, for the columns that are left out of a table
    otherwise.
    """

    empty = ""
    has_json: ClassVar[bool] = False
    has_long: ClassVar[bool] = False

    @abc.abstractmethod
    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Iterable[Any]]:
        """Return the columns and the rows."""

    def footer(self) -> str:
        """Return a line that is printed below a table whose columns are not chosen."""
        return ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser, with ``--json`` and ``--long`` if the command has them."""
        parser = super().get_parser(prog_name)
        if self.has_long:
            parser.add_argument("--long", action="store_true", help="show more columns in a table")
        if self.has_json:
            parser.add_argument("--json", action="store_true", help=JSON)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        """Return the names of the columns, and the rows with the values that the format shows."""
        columns, iterable = self.rows(parsed_args)
        chosen = self.chosen(parsed_args.columns, columns)
        order = self.chosen(parsed_args.sort_columns, columns)
        rows = table_columns.sort(list(iterable), order, descending=parsed_args.sort_direction == "desc")
        if parsed_args.formatter == "table" and not _is_json(parsed_args):
            is_long = not self.has_long or parsed_args.long
            columns = chosen or table_columns.headed(columns, is_long=is_long)
            return [column.label for column in columns], [tables.cells(columns, row) for row in rows]
        columns = chosen or columns
        shown = _SHOWN.get(parsed_args.formatter, table_columns.plain)
        return [column.key for column in columns], [[shown(column.value(row)) for column in columns] for row in rows]

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any) -> int:
        """Print the rows."""
        if _is_json(parsed_args) or parsed_args.formatter == "json":
            # cliff writes each value by itself, which takes twice the time.
            indent = None if _is_json(parsed_args) or parsed_args.noindent else 2
            rows = [dict(zip(column_names, row, strict=True)) for row in data]
            print(json.dumps(rows, indent=indent, default=str), file=self.app.stdout)
        elif parsed_args.formatter == "table" and not data and not parsed_args.print_empty:
            print(self.empty)
        else:
            self.formatter.emit_list(column_names, data, self.app.stdout, parsed_args)
            if parsed_args.formatter == "table" and not parsed_args.columns and (line := self.footer()):
                print(line, file=self.app.stdout)
        return 0

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the rows. Return the exit status."""
        super().run(parsed_args)
        return self.status


class ShowOne(_Output, show.ShowOne):
    """A command that shows one object, with its parts unless the columns are chosen."""

    _parts: Sequence[Part] = ()

    @abc.abstractmethod
    def find(self, parsed_args: argparse.Namespace) -> tuple[Any, Sequence[Part]]:
        """Return the object and its parts."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the names of the fields and their values."""
        chosen = self.chosen(parsed_args.columns, self.columns)
        row, parts = self.find(parsed_args)
        self._parts = () if chosen else parts
        columns = chosen or self.columns
        fields: dict[str, Any]
        if parsed_args.formatter == "table":
            fields = {column.label: cell for column in columns if (cell := column.cell(row))}
        else:
            shown = _SHOWN.get(parsed_args.formatter, table_columns.plain)
            fields = {column.key: shown(column.value(row)) for column in columns}
            if parsed_args.formatter in ("json", "yaml"):
                fields |= {part.key: _objects(part) for part in self._parts}
        return list(fields), list(fields.values())

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any) -> int:
        """Print the object."""
        self.formatter.emit_one(column_names, data, self.app.stdout, parsed_args)
        if parsed_args.formatter == "table":
            for part in self._parts:
                _print_part(part)
        return 0

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the object. Return the exit status."""
        super().run(parsed_args)
        return self.status


def seconds(text: str) -> float:
    """Parse the pause between two updates, in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not _LEAST_SECONDS <= number <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a number of seconds from {_LEAST_SECONDS} to {_MOST_SECONDS}"
        )
    return number


def _value_line(value: Any) -> str:
    return "None" if value is None else table_columns.printable(table_columns.value_text(value))


def _csv_value(value: Any) -> Any:
    return table_columns.inert(table_columns.plain(value))


#: The value in a format that has no objects.
_SHOWN = {"value": _value_line, "csv": _csv_value}


def _is_json(parsed_args: argparse.Namespace) -> bool:
    return bool(getattr(parsed_args, "json", False))


def _objects(part: Part) -> list[dict[str, Any]]:
    columns = [column for column in part.columns if column.key]
    return [{column.key: column.plain(row) for column in columns} for row in part.rows]


def _print_part(part: Part) -> None:
    print(f"\n{part.title}: {part.total if part.rows else part.empty}")
    if part.rows:
        tables.show_columns(part.columns, part.rows[: part.most])
    for note in part.notes:
        print(note)
    if part.most is not None and part.total > part.most:
        print(f"{part.total - part.most} more: --rows 0 shows all")
