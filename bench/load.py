# SPDX-License-Identifier: Apache-2.0
"""Load generators: threads that send requests, and the commands that control them over the standard streams.

This module imports only the standard library, because one of the clients runs with Cinder's Python.
"""

import abc
import json
import sys
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol


class LoadGenerator(Protocol):
    """A load that sends requests between ``start`` and ``stop``, and returns its counts."""

    def start(self) -> None:
        """Start to send requests."""

    def stop(self) -> None:
        """Stop to send requests."""

    def counts(self) -> str:
        """Return the current counts, as JSON."""


class Load(abc.ABC):
    """Threads that send requests. Their counts can be read at any time."""

    def __init__(self, in_flight: int) -> None:
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._seconds: list[float] = []
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(in_flight)]

    def start(self) -> None:
        """Start to send requests."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop to send requests, and wait for the outstanding answers."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def counts(self) -> str:
        """Return the seconds of each answer, and the other counts, as JSON."""
        with self._lock:
            return json.dumps({"seconds": self._seconds, **self._others()})

    @abc.abstractmethod
    def _ask(self) -> None:
        """Send requests until the stop. Counts are changed under the lock."""

    @abc.abstractmethod
    def _others(self) -> dict[str, Any]:
        """Return further counts."""


def talk(generator: LoadGenerator, others: Mapping[str, Callable[[], str]] = MappingProxyType({})) -> None:
    """Print ``ready``, then execute commands from standard input.

    ``go`` starts the load, ``mark`` prints the current counts, ``stop`` stops the load and prints all counts.
    ``others`` maps further commands to the functions that answer them.
    """
    print("ready", flush=True)
    for line in sys.stdin:
        match line.strip():
            case "go":
                generator.start()
                print("gone", flush=True)
            case "mark":
                print(generator.counts(), flush=True)
            case "stop":
                generator.stop()
                print(generator.counts(), flush=True)
            case word if word in others:
                print(others[word](), flush=True)
