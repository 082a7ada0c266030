# SPDX-License-Identifier: Apache-2.0
"""Filter that selects pools by a JSON query in a scheduler hint."""

import functools
import json
import operator
from collections.abc import Callable, Sequence
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
            accepted[rows] = [bool(query.matches(values)) for values in value_rows]
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
    variables: dict[_Variable, int] = {}
    try:
        if len(text) > MAX_LENGTH:
            raise _QueryError(f"it is {len(text)} characters long, and may have {MAX_LENGTH}")
        return _Query(_compile(json.loads(text), variables, 1), tuple(variables))
    except _QueryError as error:
        return error
    except (ValueError, RecursionError) as error:
        return _QueryError(f"it is no JSON ({error})")


def _compile(query: object, variables: dict[_Variable, int], depth: int) -> _Evaluate:
    if not isinstance(query, list):
        raise _QueryError(f"{str(query)[:40]!r} is no list of an operator and operands")
    if depth > MAX_DEPTH:
        raise _QueryError(f"it is nested deeper than {MAX_DEPTH} lists")
    if not query:
        return lambda values: True
    name, *operands = query
    if not isinstance(name, str) or name not in _OPERATORS:
        raise _QueryError(f"{str(name)[:40]!r} is none of the operators {', '.join(_OPERATORS)}")
    method = _OPERATORS[name]
    parts = [_operand(operand, variables, depth) for operand in operands]

    def run(values: Sequence[Any]) -> Any:
        present = [value for value in (part(values) for part in parts) if value is not MISSING]
        try:
            return method(present)
        except TypeError:
            # A text and a number have no order.
            return False

    return run


def _operand(operand: object, variables: dict[_Variable, int], depth: int) -> _Evaluate:
    if isinstance(operand, list):
        return _compile(operand, variables, depth + 1)
    if isinstance(operand, str) and operand.startswith("$"):
        variable = tuple(operand[1:].split("."))
        if variable == ("capabilities",):
            raise _QueryError("$capabilities needs the name of one, as in $capabilities.vendor_name")
        index = variables.setdefault(variable, len(variables))
        return lambda values: values[index]
    constant = MISSING if operand is None or operand == "" else operand
    return lambda values: constant


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
