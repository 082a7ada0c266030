# SPDX-License-Identifier: Apache-2.0
"""A cache that gives several calls of one thread the same snapshot of a storage."""

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class SnapshotCache(Generic[T]):
    """Values that are read once within :meth:`snapshot`, for the thread that entered it.

    Other threads read anew each time.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[bool]:
        """Make :meth:`get` read each key once; yields true, as :meth:`tonnage.drivers.base.Driver.one_look` requires.

        A context nested in another of the same thread shares its snapshot.
        """
        outer = getattr(self._local, "cached", None)
        self._local.cached = {} if outer is None else outer
        try:
            yield True
        finally:
            self._local.cached = outer

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return the cached value of the key, or else the result of ``read``."""
        cached: dict[Hashable, T] | None = getattr(self._local, "cached", None)
        if cached is None:
            return read()
        if key not in cached:
            cached[key] = read()
        return cached[key]
