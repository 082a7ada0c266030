# SPDX-License-Identifier: Apache-2.0
"""The values of capabilities: the reported fields of pools that are no figures."""

import functools
import itertools
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
Kind = TypeVar("Kind", bound=Hashable)


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


def same(some: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Return whether capabilities are identical; unlike ``==`` this distinguishes True, 1 and 1.0."""
    types = list(map(type, some.values()))
    if some != others or types != list(map(type, others.values())):
        return False
    return _PLAIN.issuperset(types) or repr(some) == repr(others)


def identity_key(value: object) -> Hashable:
    """Return a hashable key that only identical values share: True, 1 and 1.0 are equal but have different keys."""
    kind = value.__class__
    return kind, value if kind in _PLAIN else repr(value)


class Values(Generic[T]):
    """The distinct values of a property of pools, each with a code.

    ``read`` returns the value from the capabilities of a pool. Values with the same ``key`` have the same code.
    """

    def __init__(self, read: Callable[[Mapping[str, Any]], T], key: Callable[[T], Hashable] = identity_key) -> None:
        self._read = read
        self._key = key
        self._codes: dict[Hashable, int] = {}
        self._kinds: dict[Callable[[T], Hashable], tuple[set[Any], int]] = {}
        self.values: list[T] = []

    def codes(self, capabilities: Sequence[Mapping[str, Any]]) -> npt.NDArray[np.intp]:
        """Return the code of the value in each of these capabilities."""
        read, key_of, codes = self._read, self._key, self._codes
        found = []
        for each in capabilities:
            value = read(each)
            key = key_of(value)
            code = codes.get(key)
            if code is None:
                code = codes[key] = len(self.values)
                self.values.append(value)
            found.append(code)
        return np.array(found, dtype=np.intp)

    def find(self, value: T) -> int | None:
        """Return the code of a value, None if no pool has it."""
        return self._codes.get(self._key(value))

    def kinds(self, kind: Callable[[T], Kind]) -> Collection[Kind]:
        """Return the distinct results of a function of the values. The function is called once for each value."""
        found, seen = self._kinds.get(kind, (set(), 0))
        found.update(map(kind, itertools.islice(self.values, seen, None)))
        self._kinds[kind] = found, len(self.values)
        return found
