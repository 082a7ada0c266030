# SPDX-License-Identifier: Apache-2.0
"""The language of ``filter_function`` and ``goodness_function``.

Expressions come from drivers and are not trusted: they are parsed in linear time and without recursion (LALR), and
their length, their depth and every intermediate number are bounded. The operators, from loosest to tightest:

==========================  ========================================================================
``or`` ``||`` ``|``         either side; both are evaluated
``and`` ``&&`` ``&``        both sides; both are evaluated
``a ? b : c``               b where a holds, else c; only one of them is evaluated
``<`` ``<=`` ``==`` ...     comparison, also ``>`` ``>=`` ``!=`` ``<>``; ``a < b < c`` is ``a < b and b < c``
``not`` ``!``               negation
``+`` ``-``
``*`` ``/``                 a quotient is never rounded
``-a`` ``+a``
``^``                       power, from right to left
``max(a, b)`` ``abs(a)``    and ``min``
==========================  ========================================================================

Operands are numbers, texts in quotes, names such as ``stats.free_capacity_gb``, and words without a dot, which are
texts too. The value of a name is the reported value: a text that is a valid number becomes a number, a boolean 1 or 0.

Grammar and meaning are those of the Block Storage scheduler; ``docs/filters-and-weighers.rst`` lists the differences.
"""

import functools
import math
import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import lark

from tonnage.capacity import errors
from tonnage.capacity.pools.capability_values import MISSING

#: The longest expression, in characters, and the largest nesting depth of its operators.
MAX_LENGTH = 2048
MAX_DEPTH = 50

#: The largest number: products of two such numbers are within the range of floats, and integers multiply quickly.
LARGEST = 10**100

Number: TypeAlias = int | float
Value: TypeAlias = int | float | str
Name: TypeAlias = tuple[str, ...]
_Run: TypeAlias = Callable[[Sequence[object]], Value]

_GRAMMAR = r"""
?start: any
?any: all (_OR all)*
?all: choice (_AND choice)*
?choice: comparison
    | comparison "?" comparison ":" choice -> choose
?comparison: negation (COMPARE negation)*
?negation: sum
    | _NOT negation -> negate
?sum: product (ADD product)*
?product: signed (MULTIPLY signed)*
?signed: power
    | ADD signed -> sign
?power: operand
    | operand "^" signed -> raise_to
?operand: NUMBER -> number
    | STRING -> text
    | WORD -> text
    | NAME -> name
    | FUNCTION "(" any ("," any)* ")" -> call
    | "(" any ")"

_OR.2: /(or|OR)\b|\|\|?/
_AND.2: /(and|AND)\b|&&?/
_NOT.2: /(not|NOT)\b|!(?!=)/
FUNCTION.2: /(max|min|abs)(?=[ \t\r\n]*\()/
COMPARE: /<=|>=|!=|==|<>|<|>/
ADD: /[+-]/
MULTIPLY: /[*\/]/
NUMBER: /[0-9]+(\.[0-9]+)?/
STRING: /"([^"\r\n\\]|""|\\.)*"|'([^'\r\n\\]|''|\\.)*'/
NAME.1: /[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)+/
WORD: /[A-Za-z_][A-Za-z0-9_]*/
%ignore /[ \t\r\n]+/
"""

_COMPARISONS: dict[str, Callable[[Value, Value], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
}

_FUNCTIONS: dict[str, Callable[..., Number]] = {"abs": abs, "max": max, "min": min}


class ExpressionError(errors.TonnageError):
    """An expression is invalid, or cannot be evaluated with these values."""


class Expression:
    """A parsed expression. ``names`` are the names in it, in the order in which :meth:`value` takes their values."""

    def __init__(self, text: str) -> None:
        """Parse the text; raise :class:`ExpressionError` if it is invalid."""
        if len(text) > MAX_LENGTH:
            raise ExpressionError(f"is {len(text)} characters long, and may have {MAX_LENGTH}")
        builder = _Builder()
        try:
            self._run = builder.transform(_parser().parse(text)).run
        except lark.exceptions.VisitError as error:
            raise error.orig_exc from None
        except lark.UnexpectedInput as error:
            raise ExpressionError(_problem(error, text)) from None
        self.names = tuple(builder.names)

    def value(self, values: Sequence[object]) -> Value:
        """Return the value of the expression for these values of its names.

        Raises :class:`ExpressionError` for a missing value that is needed, and for operands of the wrong type.
        """
        try:
            return self._run(values)
        except ArithmeticError as error:
            raise ExpressionError(f"cannot be worked out: {error}") from None


def compiled(text: str) -> Expression:
    """Return the parsed expression; raise :class:`ExpressionError` if it is invalid.

    Parsing takes up to some 10 ms. A text is not parsed again while its outcome is in use anywhere: a table of pools
    keeps those of its functions, however many these are.
    """
    outcome = parsed(text)
    if isinstance(outcome, ExpressionError):
        raise ExpressionError(outcome.message)
    return outcome


def parsed(text: str) -> Expression | ExpressionError:
    """Return the parsed expression as :func:`compiled` does, or the error in it, which is kept as well."""
    outcome = _in_use.get(text)
    if outcome is None:
        try:
            outcome = Expression(text)
        except ExpressionError as error:
            outcome = error
        _in_use[text] = outcome
    return outcome


_in_use: "weakref.WeakValueDictionary[str, Expression | ExpressionError]" = weakref.WeakValueDictionary()


@functools.cache
def _parser() -> lark.Lark:
    return lark.Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)


def _problem(error: lark.UnexpectedInput, text: str) -> str:
    if isinstance(error, lark.UnexpectedToken) and error.token.type == "$END":
        return "ends where something is missing"
    position = error.pos_in_stream or 0  # type: ignore[redundant-expr]  # None if nothing was read
    return f"has {text[position : position + 20]!r} at character {position + 1}, where it does not belong"


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of an expression, with its nesting depth."""

    run: _Run
    depth: int = 0


def _node(run: _Run, *parts: _Node) -> _Node:
    depth = 1 + max(part.depth for part in parts)
    if depth > MAX_DEPTH:
        raise ExpressionError(f"is nested deeper than {MAX_DEPTH} operators")
    return _Node(run, depth)


class _Builder(lark.visitors.Transformer_NonRecursive[lark.Token, _Node]):
    """Builder of one function of the values of the names from the tree of an expression."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[Name, int] = {}

    def number(self, parts: list[lark.Token]) -> _Node:
        text = str(parts[0])
        constant = _bounded(float(text) if "." in text else int(text))
        return _Node(lambda values: constant)

    def text(self, parts: list[lark.Token]) -> _Node:
        constant = _unquoted(str(parts[0]))
        return _Node(lambda values: constant)

    def name(self, parts: list[lark.Token]) -> _Node:
        name = str(parts[0])
        index = self.names.setdefault(tuple(name.split(".")), len(self.names))
        return _Node(lambda values: _typed_value(name, values[index]))

    def call(self, parts: list[lark.Token | _Node]) -> _Node:
        name, arguments = str(parts[0]), cast("list[_Node]", parts[1:])
        if (name == "abs") != (len(arguments) == 1):
            raise ExpressionError(f"gives {name} {len(arguments)} value(s): abs takes one, max and min at least two")
        function, runs = _FUNCTIONS[name], [argument.run for argument in arguments]
        return _node(lambda values: function(*(_number(run(values)) for run in runs)), *arguments)

    def raise_to(self, parts: list[_Node]) -> _Node:
        base, exponent = (part.run for part in parts)
        return _node(lambda values: _power(_number(base(values)), _number(exponent(values))), *parts)

    def sign(self, parts: list[lark.Token | _Node]) -> _Node:
        factor, part = -1 if str(parts[0]) == "-" else 1, cast(_Node, parts[1])
        return _node(lambda values: factor * _number(part.run(values)), part)

    def product(self, parts: list[lark.Token | _Node]) -> _Node:
        first, operations = _chain(parts)

        def run(values: Sequence[object]) -> Value:
            result = _number(first(values))
            for sign, factor in operations:
                number = _number(factor(values))
                result = _bounded(result * number if sign == "*" else result / float(number))
            return result

        return _node(run, *_nodes(parts))

    def sum(self, parts: list[lark.Token | _Node]) -> _Node:
        first, operations = _chain(parts)

        def run(values: Sequence[object]) -> Value:
            result = _number(first(values))
            for sign, term in operations:
                number = _number(term(values))
                result = _bounded(result + number if sign == "+" else result - number)
            return result

        return _node(run, *_nodes(parts))

    def negate(self, parts: list[_Node]) -> _Node:
        run = parts[0].run
        return _node(lambda values: not run(values), *parts)

    def comparison(self, parts: list[lark.Token | _Node]) -> _Node:
        first, operations = _chain(parts)

        def run(values: Sequence[object]) -> Value:
            left_value = first(values)
            for sign, part in operations:
                right_value = part(values)
                if not _compare(sign, left_value, right_value):
                    return False
                left_value = right_value
            return True

        return _node(run, *_nodes(parts))

    def choose(self, parts: list[_Node]) -> _Node:
        condition, this, that = (part.run for part in parts)
        return _node(lambda values: this(values) if condition(values) else that(values), *parts)

    def all(self, parts: list[_Node]) -> _Node:
        runs = [part.run for part in parts]
        return _node(lambda values: functools.reduce(_and, [run(values) for run in runs]), *parts)

    def any(self, parts: list[_Node]) -> _Node:
        runs = [part.run for part in parts]
        return _node(lambda values: functools.reduce(_or, [run(values) for run in runs]), *parts)


def _nodes(parts: Sequence[lark.Token | _Node]) -> list[_Node]:
    """Return the operands of a chain of operators and operands."""
    return cast("list[_Node]", parts[::2])


def _chain(parts: Sequence[lark.Token | _Node]) -> tuple[_Run, list[tuple[str, _Run]]]:
    """Return the first operand of a chain, and each operator with the operand after it."""
    first, *later_runs = (node.run for node in _nodes(parts))
    return first, list(zip((str(sign) for sign in parts[1::2]), later_runs, strict=True))


def _typed_value(name: str, value: object) -> Value:
    """Return the value of a name in the types of the language."""
    if isinstance(value, str):
        return _read(value)
    if isinstance(value, (bool, int, float)):
        return _bounded(int(value) if isinstance(value, bool) else value)
    if value is MISSING or value is None:
        raise ExpressionError(f"wants {name}, and there is none")
    raise ExpressionError(f"wants {name}, which is a {'list' if isinstance(value, (list, tuple)) else 'group'}")


def _read(text: str) -> Value:
    """Return the number in a reported text, or the text without quotes if it is not a number."""
    for number_type in (int, float):
        try:
            number = number_type(text)
        except ValueError:
            continue
        if math.isfinite(number):
            return _bounded(number)
    return _unquoted(text)


def _unquoted(text: str) -> str:
    return text.replace('"', "").replace("'", "")


def _number(value: Value) -> Number:
    if isinstance(value, str):
        raise ExpressionError(f"calculates with '{value}', which is no number")
    return value


def _bounded(number: Number) -> Number:
    if not abs(number) <= LARGEST:
        raise ExpressionError("leaves the range of numbers, which ends at 10^100")
    return number


def _power(base: Number, exponent: Number) -> Number:
    if exponent > 0 and abs(base) > 1 and exponent * math.log10(abs(base)) > math.log10(LARGEST):
        raise ExpressionError("leaves the range of numbers, which ends at 10^100")
    result = base**exponent
    if isinstance(result, complex):
        raise ExpressionError(f"takes a root of {base}, which is negative")
    return _bounded(result)


def _compare(sign: str, left_value: Value, right_value: Value) -> bool:
    if isinstance(left_value, str) != isinstance(right_value, str) and sign not in ("==", "!=", "<>"):
        raise ExpressionError(f"compares {left_value!r} {sign} {right_value!r}, a text with a number")
    return _COMPARISONS[sign](left_value, right_value)


def _and(left_value: Value, right_value: Value) -> Value:
    return left_value and right_value


def _or(left_value: Value, right_value: Value) -> Value:
    return left_value or right_value
