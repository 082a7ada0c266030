# SPDX-License-Identifier: Apache-2.0
"""Filters that are always enabled: the state of a pool, and the limits of the ledger."""

from types import SimpleNamespace

import pytest

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Request
from tonnage.scheduler.configuration.builtin_filters import BackendStateFilter, LedgerFilter

REQUEST = Request(request_id="r", size_gb=3)
CLONE = Request(request_id="r", size_gb=3, copies=True)


class Ages:
    """A backend that has been silent for 75 seconds, with figures of 90 seconds."""

    def silence(self, backend: str) -> float:
        assert backend == "h@b"
        return 75.25

    def figures_age(self, pool: str) -> float:
        assert pool == "h@b#p"
        return 90.0

    def notice(self, backend: str) -> str | None:
        assert backend == "h@b"
        return "its agent cannot report: not mounted"

    def is_draining(self, backend: str) -> bool:
        assert backend == "h@b"
        return False


def pool(**values: object) -> Pool:
    return Pool(**{"name": "h@b#p", "total": 10.0, "free": 10.0} | values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "request_", "code", "message"),
    [
        (
            {"up": False},
            REQUEST,
            "backend_down",
            "is down: no report for 75 s (service_down_time is 60); its agent cannot report: not mounted",
        ),
        (
            {"capabilities": {"backend_state": " Down"}},
            REQUEST,
            "reported_down",
            "is down: its driver reports backend_state down",
        ),
        ({"enabled": False}, REQUEST, "backend_disabled", "is on a disabled backend"),
        (
            {"expired": True, "capabilities": {"report_lifetime": 30}},
            REQUEST,
            "expired",
            "has expired: its figures are 90 s old, and count for 30 s (report_lifetime)",
        ),
        ({"capabilities": {"clone_support": False}}, CLONE, "cannot_clone", "has a driver that cannot clone volumes"),
    ],
)
def test_a_pool_that_may_not_be_considered_has_a_reason(
    values: dict[str, object], request_: Request, code: str, message: str
) -> None:
    state = BackendStateFilter(60.0, Ages())
    assert state.accepts(PoolTable([pool(**values)]), request_).tolist() == [False]
    rejection = state.reason(pool(**values), request_)
    assert (rejection.code, rejection.message) == (code, message)
    assert state.accepts(PoolTable([pool()]), request_).tolist() == [True]


def test_a_draining_backend_is_not_merely_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ages, "is_draining", lambda self, backend: True)
    rejection = BackendStateFilter(60.0, Ages()).reason(pool(enabled=False), REQUEST)
    assert (rejection.code, rejection.message) == ("backend_disabled", "is on a draining backend")


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (Operation.CREATE, "has failed to make this volume before"),
        (Operation.MIGRATE, "holds the volume already, or a copy that is still to go"),
    ],
)
def test_a_pool_is_tried_once_for_each_volume(operation: Operation, message: str) -> None:
    request = Request("r", 3, operation=operation, attempted=frozenset({"h@b#p", "gone@b#p"}))
    pools = PoolTable([pool(), pool(name="h@b#other")])
    assert BackendStateFilter(60.0).accepts(pools, request).tolist() == [False, True]
    assert BackendStateFilter(60.0).reason(pool(), request).message == message


def test_a_driver_that_cannot_clone_takes_moves_and_new_volumes() -> None:
    pools = PoolTable([pool(capabilities={"clone_support": False})])
    move = Request("r", 3, operation=Operation.MIGRATE, copies=True)
    state = BackendStateFilter(60.0)
    assert [state.accepts(pools, request)[0] for request in (REQUEST, move, CLONE)] == [True, True, False]


@pytest.mark.parametrize("state", ["up", "", None, 0, ["down"], "shutdown"])
def test_only_a_state_that_is_down_excludes_a_pool(state: object) -> None:
    pools = PoolTable([pool(capabilities={"backend_state": state})])
    assert BackendStateFilter(60.0).accepts(pools, REQUEST).tolist() == [True]


def test_verdicts_are_kept_for_plain_requests_alone() -> None:
    state = BackendStateFilter(60.0)
    assert state.cache_key(REQUEST) == ()
    assert state.cache_key(CLONE) is None
    assert state.cache_key(Request("r", 3, attempted=frozenset({"h@b#p"}))) is None


def test_without_ages_a_backend_was_silent_for_the_down_time() -> None:
    assert BackendStateFilter(60.0).reason(pool(up=False), REQUEST).numbers["silence"] == 60.0


def test_the_ledger_keeps_limits_without_the_capacity_filter() -> None:
    limits = LedgerFilter(SimpleNamespace(over_provisioning_calculation=Calculation.CINDER))
    full = pool(free=2.0, thick=True)
    assert limits.accepts(PoolTable([full]), REQUEST).tolist() == [False]
    assert limits.reason(full, REQUEST).message.endswith("scheduler_default_filters does not name CapacityFilter")
