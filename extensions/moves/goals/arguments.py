# SPDX-License-Identifier: Apache-2.0
"""The arguments that goals declare. The REST API reads them from bodies, and the commands from their options."""

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tonnage.capacity import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument(abc.ABC):
    """An argument of a goal.

    ``name`` is its name in the REST API, and ``summary`` its meaning in a few words. ``option`` is the name of its
    option on command lines if that is another one; the subject of a goal has no option. ``default`` is the value if
    there is none, None for an argument that is required. On command lines an argument that ``names_pools`` takes their
    short names too.
    """

    name: str
    summary: str
    option: str = ""
    default: Any = None
    names_pools: bool = False

    #: Whether its value is a list.
    is_list: ClassVar[bool] = False

    @property
    def metavar(self) -> str:
        """The word for its value in the help of commands."""
        return "NAME"

    @property
    def option_name(self) -> str:
        """The name of its option, without hyphens at its beginning."""
        return self.option or self.name.replace("_", "-")

    @property
    @abc.abstractmethod
    def expected(self) -> str:
        """The values that it takes, in words."""

    def read(self, value: Any) -> Any:
        """Return the value of a body. Raises :class:`~tonnage.capacity.errors.InvalidInput` for a wrong one."""
        if not self.takes(value):
            raise errors.InvalidInput(f"{self.name} is {value!r}: expected {self.expected}")
        return value

    def parse(self, text: str) -> Any:
        """Return the value of a text. Raises :class:`~tonnage.capacity.errors.InvalidInput` for a wrong one."""
        try:
            value = self.of_text(text)
        except ValueError:
            value = None
        if not text.strip() or not self.takes(value):
            raise errors.InvalidInput(f"{text!r}: expected {self.expected}")
        return value

    @abc.abstractmethod
    def takes(self, value: Any) -> bool:
        """Return whether a value has the right type and is within the bounds."""

    def of_text(self, text: str) -> Any:
        """Return the value that a text means. Raises ValueError."""
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Argument):
    """A text. It is empty only if that is the default."""

    @property
    def expected(self) -> str:
        """The values that it takes, in words."""
        return "a text"

    def takes(self, value: Any) -> bool:
        """Return whether a value has the right type."""
        return isinstance(value, str) and bool(value or self.default == "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(Argument):
    """A list of texts, which may be missing. On a command line it is several words."""

    default: Any = ()
    is_list: ClassVar[bool] = True

    @property
    def expected(self) -> str:
        """The values that it takes, in words."""
        return "a list of texts"

    def takes(self, value: Any) -> bool:
        """Return whether a value has the right type."""
        return isinstance(value, list | tuple) and all(isinstance(text, str) and text for text in value)

    def of_text(self, text: str) -> Any:
        """Return the list that a word means."""
        return [text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Argument):
    """A number within bounds."""

    least: float = 0
    most: float = math.inf

    @property
    def metavar(self) -> str:
        """The word for its value in the help of commands."""
        return "N"

    @property
    def expected(self) -> str:
        """The values that it takes, in words."""
        return f"a number {_bounds(self.least, self.most)}"

    def takes(self, value: Any) -> bool:
        """Return whether a value is a number within the bounds."""
        return not isinstance(value, bool) and isinstance(value, int | float) and self.least <= value <= self.most

    def of_text(self, text: str) -> Any:
        """Return the number that a text means."""
        return float(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percent(Number):
    """A number from 0 to 100."""

    most: float = 100

    @property
    def metavar(self) -> str:
        """The word for its value in the help of commands."""
        return "PERCENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Number):
    """A whole number of at least 1."""

    least: float = 1

    @property
    def expected(self) -> str:
        """The values that it takes, in words."""
        return f"a whole number {_bounds(self.least, self.most)}"

    def takes(self, value: Any) -> bool:
        """Return whether a value is a whole number within the bounds."""
        return Number.takes(self, value) and math.isfinite(value) and value == int(value)

    def read(self, value: Any) -> Any:
        """Return the value of a body. Raises :class:`~tonnage.capacity.errors.InvalidInput` for a wrong one."""
        return int(Argument.read(self, value))

    def of_text(self, text: str) -> Any:
        """Return the number that a text means."""
        return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Argument):
    """One of some words."""

    words: Sequence[str]

    @property
    def metavar(self) -> str:
        """The word for its value in the help of commands."""
        return "|".join(self.words)

    @property
    def expected(self) -> str:
        """The values that it takes, in words."""
        return " or ".join(self.words)

    def takes(self, value: Any) -> bool:
        """Return whether a value is one of the words."""
        return value in self.words


def _bounds(least: float, most: float) -> str:
    return f"from {least:g} to {most:.0f}" if math.isfinite(most) else f"of at least {least:g}"


def read_all(declared: Sequence[Argument], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all arguments by their names.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for a wrong or missing one, and for one that is not declared.
    """
    names = [argument.name for argument in declared]
    if unknown := sorted(values.keys() - set(names)):
        raise errors.InvalidInput(f"the goal has no argument {', '.join(unknown)}: it takes {', '.join(names)}")
    for argument in declared:
        if argument.default is None and argument.name not in values:
            raise errors.InvalidInput(f"{argument.name} is missing: expected {argument.expected}")
    return {argument.name: argument.read(values.get(argument.name, argument.default)) for argument in declared}
