# SPDX-License-Identifier: Apache-2.0
"""What was seen in one look at a storage, for the calls of a thread that shall tell of the same moment."""

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class OneLook(Generic[T]):
    """While :meth:`taken`, the thread that did so sees each thing as it did first; other threads see what is there."""

    def __init__(self) -> None:
        self._local = threading.local()

    @contextlib.contextmanager
    def taken(self) -> Iterator[bool]:
        """Have :meth:`of` look once; for :meth:`tonnage.drivers.base.Driver.one_look`, so it yields true.

        Within another of the same thread it is that look.
        """
        before = getattr(self._local, "seen", None)
        self._local.seen = {} if before is None else before
        try:
            yield True
        finally:
            self._local.seen = before

    def of(self, what: Hashable, look: Callable[[], T]) -> T:
        """Return what ``look`` returns, or returned before."""
        seen: dict[Hashable, T] | None = getattr(self._local, "seen", None)
        if seen is None:
            return look()
        if what not in seen:
            seen[what] = look()
        return seen[what]
