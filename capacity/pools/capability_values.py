# SPDX-License-Identifier: Apache-2.0
"""The values of capabilities: the reported fields of pools that are not figures."""

import functools
import itertools
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
Result = TypeVar("Result", bound=Hashable)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


#: The value of a capability that a pool does not report.
MISSING: Final = _Missing()

#: Types whose values are identical if they are equal and of the same type.
_PLAIN = frozenset({str, int, float, bool, type(None), _Missing})


def reported(capabilities: Mapping[str, Any], path: Iterable[str]) -> Any:
    """Return the capability at that path, a key for each level of nesting; :data:`MISSING` if there is none."""
    value: Any = capabilities
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return MISSING
        value = value[key]
    return value


def reader(path: Sequence[str]) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that reads the capability at a path, as :func:`reported` does."""
    if len(path) == 1:
        return operator.methodcaller("get", path[0], MISSING)  # faster
    return functools.partial(reported, path=path)


def same(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether capabilities are identical; unlike ``==`` this distinguishes True, 1 and 1.0."""
    types = list(map(type, first.values()))
    if first != second or types != list(map(type, second.values())):
        return False
    return _PLAIN.issuperset(types) or repr(first) == repr(second)


def identity_key(value: object) -> Hashable:
    """Return a hashable key that only identical values share: True, 1 and 1.0 are equal but have different keys."""
    value_type = value.__class__
    return value_type, value if value_type in _PLAIN else repr(value)


class Values(Generic[T]):
    """The distinct values of a property of pools, each with a code.

    ``read`` returns the value from the capabilities of a pool. Values with the same ``key`` have the same code.
    """

    def __init__(self, read: Callable[[Mapping[str, Any]], T], key: Callable[[T], Hashable] = identity_key) -> None:
        self._read = read
        self._key = key
        self._codes: dict[Hashable, int] = {}
        self._results: dict[Callable[[T], Any], list[Any]] = {}
        self._distinct_results: dict[Callable[[T], Hashable], tuple[set[Any], int]] = {}
        self.values: list[T] = []

    def codes(self, capabilities: Sequence[Mapping[str, Any]]) -> npt.NDArray[np.intp]:
        """Return the code of the value in each of these capabilities."""
        # Pools of the same kind share one mapping, so each mapping is read once.
        ids = list(map(id, capabilities))
        codes = {key: self._code(mapping) for key, mapping in dict(zip(ids, capabilities, strict=True)).items()}
        return np.fromiter(map(codes.__getitem__, ids), dtype=np.intp, count=len(ids))

    def _code(self, capabilities: Mapping[str, Any]) -> int:
        """Return the code of the value in these capabilities, a new one for a new value."""
        value = self._read(capabilities)
        key = self._key(value)
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self.values)
            self.values.append(value)
        return code

    def find(self, value: T) -> int | None:
        """Return the code of a value, None if no pool has it."""
        return self._codes.get(self._key(value))

    def distinct_results(self, function: Callable[[T], Result]) -> Collection[Result]:
        """Return the distinct results of a function of the values. The function is called once for each value."""
        results, evaluated = self._distinct_results.get(function, (set(), 0))
        results.update(map(function, itertools.islice(self.values, evaluated, None)))
        self._distinct_results[function] = results, len(self.values)
        return results

    def results(self, function: Callable[[T], Any]) -> Sequence[Any]:
        """Return the result of a function for each value, by code. The function is called once for each value."""
        results = self._results.setdefault(function, [])
        results.extend(map(function, itertools.islice(self.values, len(results), None)))
        return results
