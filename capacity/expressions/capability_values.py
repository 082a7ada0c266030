# SPDX-License-Identifier: Apache-2.0
"""What pools report beside figures: values of any kind, by their names."""

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


#: Stands for a capability that a pool does not report.
MISSING: Final = _Missing()

#: Types of values that are equal only to what cannot be told from them.
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
    """Return what finds the capability at a path, as :func:`reported` does, in many pools."""
    if len(path) == 1:
        return operator.methodcaller("get", path[0], MISSING)  # is faster
    return functools.partial(reported, path=path)


def same(some: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Tell whether capabilities are the same; unlike ``==`` this tells True, 1 and 1.0 apart."""
    types = list(map(type, some.values()))
    if some != others or types != list(map(type, others.values())):
        return False
    return _PLAIN.issuperset(types) or repr(some) == repr(others)


def told_apart(value: object) -> Hashable:
    """Return what only the same value has: True, 1 and 1.0 are equal and yet not the same, and lists have no hash."""
    kind = value.__class__
    return kind, value if kind in _PLAIN else repr(value)


class Values(Generic[T]):
    """The distinct values of something that pools report, each with a number.

    ``read`` finds it in the capabilities of a pool. Values are the same that have the same ``key``.
    """

    def __init__(self, read: Callable[[Mapping[str, Any]], T], key: Callable[[T], Hashable] = told_apart) -> None:
        self._read = read
        self._key = key
        self._codes: dict[Hashable, int] = {}
        self._kinds: dict[Callable[[T], Hashable], tuple[set[Any], int]] = {}
        self.values: list[T] = []

    def codes(self, capabilities: Sequence[Mapping[str, Any]]) -> npt.NDArray[np.intp]:
        """Return the number of the value in each of these."""
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
        """Return the number of a value, None if no pool has it."""
        return self._codes.get(self._key(value))

    def kinds(self, kind: Callable[[T], Kind]) -> Collection[Kind]:
        """Return what a function makes of the values, which may be far less; no value is looked at twice."""
        found, seen = self._kinds.get(kind, (set(), 0))
        found.update(map(kind, itertools.islice(self.values, seen, None)))
        self._kinds[kind] = found, len(self.values)
        return found
