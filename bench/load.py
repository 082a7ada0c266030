# SPDX-License-Identifier: Apache-2.0
"""What the clients of the benchmarks share: threads that ask, and how they are spoken with over the standard streams.

The standard library alone, as one of them runs with Cinder's Python.
"""

import abc
import json
import sys
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol


class Asking(Protocol):
    """Something that asks between ``start`` and ``stop``, and tells what it has counted."""

    def start(self) -> None:
        """Begin to ask."""

    def stop(self) -> None:
        """Ask no more."""

    def counts(self) -> str:
        """Return what was counted so far, as JSON."""


class Load(abc.ABC):
    """Threads that ask; what they count is read while they do."""

    def __init__(self, in_flight: int) -> None:
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._seconds: list[float] = []
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(in_flight)]

    def start(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask no more, and wait for the answers that are missing."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def counts(self) -> str:
        """Return how long each answer took so far, in seconds, and what else was counted."""
        with self._lock:
            return json.dumps({"seconds": self._seconds, **self._others()})

    @abc.abstractmethod
    def _ask(self) -> None:
        """Ask until told to stop; what is counted is counted under the lock."""

    @abc.abstractmethod
    def _others(self) -> dict[str, Any]:
        """Return what is counted besides."""


def talk(asking: Asking, others: Mapping[str, Callable[[], str]] = MappingProxyType({})) -> None:
    """Say ``ready``, begin on ``go``, and answer ``mark`` with what is counted so far, ``stop`` with all of it.

    ``others`` answer further words.
    """
    print("ready", flush=True)
    for line in sys.stdin:
        match line.strip():
            case "go":
                asking.start()
                print("gone", flush=True)
            case "mark":
                print(asking.counts(), flush=True)
            case "stop":
                asking.stop()
                print(asking.counts(), flush=True)
            case word if word in others:
                print(others[word](), flush=True)
