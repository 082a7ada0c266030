# SPDX-License-Identifier: Apache-2.0
"""A page of metrics that is kept for some time, compressed."""

import abc
import gzip
import threading
import time


class CachedPage(abc.ABC):
    """Keeps a page, and its parts about single backends, for ``cache_time`` seconds."""

    def __init__(self, cache_time: float) -> None:
        self._cache_time = cache_time
        self._lock = threading.Lock()
        self._cache: dict[str | None, tuple[float, bytes]] = {}

    @abc.abstractmethod
    def text(self, backend: str | None) -> bytes:
        """Return the page, or the part about one backend, as it is now.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the database does not answer.
        """

    def compressed(self, backend: str | None = None) -> bytes:
        """Return the page, or the part about one backend, compressed by gzip.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the database does not answer.
        """
        # One thread makes the page; the others wait for it.
        with self._lock:
            made, text = self._cache.get(backend, (0.0, b""))
            if not text or time.monotonic() - made >= self._cache_time:
                text = gzip.compress(self.text(backend), compresslevel=1)
                now = time.monotonic()
                self._cache = {key: entry for key, entry in self._cache.items() if now - entry[0] < self._cache_time}
                self._cache[backend] = now, text
            return text
