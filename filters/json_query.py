# SPDX-License-Identifier: Apache-2.0
"""Filter that selects pools by a JSON query in a scheduler hint."""

import functools
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tonnage.capacity.decision import Rejection
from tonnage.capacity.expressions import attributes
from tonnage.capacity.expressions.attributes import Rows
from tonnage.capacity.pools.capability_values import MISSING
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask

#: Name of the hint that contains the query.
HINT = "query"

#: Maximum length of a query, in characters, and maximum depth of nested lists.
MAX_LENGTH = 4096
MAX_DEPTH = 20

#: Maximum number of operands that are evaluated for each pool, because any member may send a query.
MAX_OPERANDS = 32

_Variable: TypeAlias = tuple[str, ...]
_Evaluate: TypeAlias = Callable[[Sequence[Any]], Any]


class _QueryError(ValueError):
    """The hint is not a valid query."""


@dataclass(frozen=True, slots=True)
class _Query:
    """A parsed query. ``matches`` takes the values of ``variables``, in their order."""

    matches: _Evaluate
    variables: tuple[_Variable, ...]


class JsonFilter(Filter):
    """Accepts pools that match the query in the hint ``query``, and every pool without one.

    A query is a JSON list of an operator and its operands. Operands may be queries themselves. An operand ``$name`` is
    an attribute of the pool, ``$capabilities.name`` a capability; an operand that the pool does not have is left out.
    The operators are ``=`` ``<`` ``>`` ``<=`` ``>=`` (they compare the first operand with each other operand), ``in``
    (the first operand equals one of the others), ``and``, ``or`` and ``not`` (at least one operand is false).

    The work for each pool is bounded: operands that depend on no variable are evaluated once, a list of constants after
    ``in`` counts as one operand, and a query with more than :data:`MAX_OPERANDS` is invalid.
    """

    is_categorical = True
    trigger_fields = ("hints",)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        return self.narrow(pools, request, np.ones(len(pools), dtype=np.bool_))

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        text = _hint(request)
        if not text:
            return np.ones(len(pools), dtype=np.bool_)
        accepted = np.zeros(len(pools), dtype=np.bool_)
        query = _parsed(text)
        if isinstance(query, _Query):
            rows = np.flatnonzero(still_in)
            columns = [_column(pools, rows, variable) for variable in query.variables]
            value_rows = zip(*columns, strict=True) if columns else ((),) * rows.size
            accepted[rows] = list(_verdicts(query, value_rows))
        return accepted

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Quote the query with the values of its variables, or the error in it."""
        text = _hint(request)
        shown = text if len(text) <= 200 else f"{text[:197]}..."
        query = _parsed(text)
        if isinstance(query, _QueryError):
            return Rejection("bad_query", f"cannot be judged by the hint {HINT} {shown}: {query}", {"query": shown})
        values: dict[str, float | str] = {}
        for variable in query.variables:
            [value] = _column(PoolTable([pool]), np.arange(1), variable)
            text_value = "nothing" if value is MISSING else str(value)[:200]
            values[f"${'.'.join(variable)}"] = value if isinstance(value, (int, float)) else text_value
        listed = ", ".join(f"{name} is {value}" for name, value in values.items())
        problem = f"does not match the hint {HINT} {shown}" + (f" ({listed})" if listed else "")
        return Rejection("query", problem, {"query": shown, **values})


def _verdicts(query: _Query, value_rows: Iterable[tuple[Any, ...]]) -> Iterator[bool]:
    """Yield whether the query matches each row of values; rows with equal values are evaluated once."""
    verdicts: dict[tuple[Any, ...], bool] = {}
    for values in value_rows:
        try:
            verdict = verdicts.get(values)
        except TypeError:  # a list or an object that a driver reports
            verdict = bool(query.matches(values))
        else:
            if verdict is None:
                verdict = verdicts[values] = bool(query.matches(values))
        yield verdict


def _hint(request: Request) -> str:
    """Return the query as JSON text. Clients send the text, or the decoded list."""
    query = request.hints.get(HINT)
    return query if isinstance(query, str) else "" if not query else json.dumps(query)


def _column(pools: PoolTable, rows: Rows, variable: _Variable) -> list[Any]:
    if variable[0] == "capabilities":
        return attributes.capability(pools, rows, variable[1:])
    return attributes.stats(pools, rows, variable)


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> _Query | _QueryError:
    """Return the parsed query, or the error in it. Cached, because the same query is needed for many pools."""
    try:
        if len(text) > MAX_LENGTH:
            raise _QueryError(f"it is {len(text)} characters long, and may have {MAX_LENGTH}")
        compiler = _Compiler()
        matches = compiler.operation(json.loads(text), 1)
        return _Query(matches, tuple(compiler.variables))
    except _QueryError as error:
        return error
    except (ValueError, RecursionError) as error:
        return _QueryError(f"it is no JSON ({error})")


class _Constant:
    """An operand with the same value for every pool."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, values: Sequence[Any]) -> Any:
        return self.value


class _Compiler:
    """Compiles a query, and keeps the work for each pool within :data:`MAX_OPERANDS`.

    ``variables`` has the position of each variable. Operations without variables are evaluated once, here.
    """

    def __init__(self) -> None:
        self.variables: dict[_Variable, int] = {}
        self._operands = 0

    def operation(self, query: object, depth: int) -> _Evaluate:
        """Return the function of the variables' values that evaluates a list of an operator and its operands."""
        if not isinstance(query, list):
            raise _QueryError(f"{str(query)[:40]!r} is no list of an operator and operands")
        if depth > MAX_DEPTH:
            raise _QueryError(f"it is nested deeper than {MAX_DEPTH} lists")
        if not query:
            return _Constant(True)
        name, *operands = query
        if not isinstance(name, str) or name not in _OPERATORS:
            raise _QueryError(f"{str(name)[:40]!r} is none of the operators {', '.join(_OPERATORS)}")
        method = _OPERATORS[name]
        parts = [self._operand(operand, depth) for operand in operands]
        if all(isinstance(part, _Constant) for part in parts):
            return _Constant(_applied(method, [part(()) for part in parts]))
        membership = _membership(parts) if name == "in" else None
        self._operands += len(parts) if membership is None else 1
        if self._operands > MAX_OPERANDS:
            raise _QueryError(f"it has more than {MAX_OPERANDS} operands; the values after 'in' do not count")
        return membership or (lambda values: _applied(method, [part(values) for part in parts]))

    def _operand(self, operand: object, depth: int) -> _Evaluate:
        if isinstance(operand, list):
            return self.operation(operand, depth + 1)
        if isinstance(operand, str) and operand.startswith("$"):
            variable = tuple(operand[1:].split("."))
            if variable == ("capabilities",):
                raise _QueryError("$capabilities needs the name of one, as in $capabilities.vendor_name")
            return operator.itemgetter(self.variables.setdefault(variable, len(self.variables)))
        return _Constant(MISSING if operand is None or operand == "" else operand)


def _applied(method: Callable[[list[Any]], bool], operands: Sequence[Any]) -> bool:
    """Return the result of an operator for the operands that have a value."""
    try:
        return method([operand for operand in operands if operand is not MISSING])
    except TypeError:
        # A text and a number have no order.
        return False


def _membership(parts: Sequence[_Evaluate]) -> _Evaluate | None:
    """Return the function that looks for the first operand among constants, None if another operand is no constant.

    Its time does not depend on the number of constants.
    """
    first, *others = parts
    constants = [part.value for part in others if isinstance(part, _Constant) and part.value is not MISSING]
    try:
        members = frozenset(constants)
    except TypeError:  # an object of JSON
        return None
    if not all(isinstance(part, _Constant) for part in others):
        return None
    without_first = _in(constants)

    def run(values: Sequence[Any]) -> bool:
        value = first(values)
        if value is MISSING:
            return without_first
        # No constant is a list, and none of these is an object.
        return not isinstance(value, (list, dict)) and value in members

    return run


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[list[Any]], bool]:
    return lambda operands: len(operands) > 1 and all(compare(operands[0], other) for other in operands[1:])


def _in(operands: list[Any]) -> bool:
    return len(operands) > 1 and operands[0] in operands[1:]


def _not(operands: list[Any]) -> bool:
    return not all(operands)


_OPERATORS: dict[str, Callable[[list[Any]], bool]] = {
    "=": _comparison(operator.eq),
    "<": _comparison(operator.lt),
    ">": _comparison(operator.gt),
    "<=": _comparison(operator.le),
    ">=": _comparison(operator.ge),
    "in": _in,
    "not": _not,
    "or": any,
    "and": all,
}
