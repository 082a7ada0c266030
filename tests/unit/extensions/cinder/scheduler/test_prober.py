# SPDX-License-Identifier: Apache-2.0
"""Probes of the backends whose figures have something to contain."""

from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.extensions.cinder.scheduler.prober import Prober


class Ledger:
    """The probes of a ledger: the backends that are due, and those whose interval has not ended yet."""

    def __init__(self) -> None:
        self.due_backends: set[str] = set()
        self.waiting: set[str] = set()
        self.problem: Exception | None = None

    def due(self, interval: float) -> set[str]:
        if self.problem is not None:
            raise self.problem
        return self.due_backends

    def next_probe(self, backend: str, interval: float) -> str | None:
        return None if backend in self.waiting else f"probe of {backend}"


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def sent() -> list[Any]:
    return []


@pytest.fixture
def prober(ledger: Any, sent: list[Any]) -> Prober:
    return Prober(ledger, 10.0, lambda: {"a": "nova", "b": "nova"}, sent.append)


def test_nothing_is_sent_while_no_backend_is_due(prober: Prober, sent: list[Any]) -> None:
    prober.probe()
    assert sent == []


def test_backends_that_are_due_and_up_are_probed(prober: Prober, ledger: Ledger, sent: list[Any]) -> None:
    ledger.due_backends = {"b", "a", "down"}
    prober.probe()
    assert sent == ["probe of a", "probe of b"]


def test_a_requested_probe_waits_for_the_interval_and_is_sent_once(
    prober: Prober, ledger: Ledger, sent: list[Any]
) -> None:
    ledger.waiting = {"a"}
    prober.request("a")
    prober.probe()
    assert sent == []
    ledger.waiting.clear()
    prober.probe()
    prober.probe()
    assert sent == ["probe of a"]


def test_a_request_is_kept_if_the_ledger_is_away(prober: Prober, ledger: Ledger, sent: list[Any]) -> None:
    prober.request("a")
    ledger.problem = errors.Unavailable("no database")
    with pytest.raises(errors.Unavailable, match="no database"):
        prober.probe()
    ledger.problem = None
    prober.probe()
    assert sent == ["probe of a"]
