# SPDX-License-Identifier: Apache-2.0
"""Storages that several pools share."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tonnage.capacity.pools.pool import backend_of


class Storage:
    """The pools on one storage: their names, and the number of pools on each backend."""

    __slots__ = ("backends", "names", "rows", "sorted_names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = set(names)
        self.backends = Counter(map(backend_of, self.names))
        self.sorted_names: list[str] | None = None
        self.rows: npt.NDArray[np.intp] | None = None

    def add(self, name: str) -> None:
        if name not in self.names:
            self.names.add(name)
            self.backends[backend_of(name)] += 1
            self.drop_caches()

    def discard(self, name: str) -> None:
        if name in self.names:
            self.names.remove(name)
            backend = backend_of(name)
            self.backends[backend] -= 1
            if not self.backends[backend]:
                del self.backends[backend]
            self.drop_caches()

    def drop_caches(self) -> None:
        """Drop the sorted names and the rows, which are computed again on the next use."""
        self.sorted_names = self.rows = None
