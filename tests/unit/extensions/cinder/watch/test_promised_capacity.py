# SPDX-License-Identifier: Apache-2.0
"""The capacity that Cinder has promised."""

from dataclasses import replace

import pytest

from tests.unit.extensions.cinder.watch.scenes import OTHER, POOL, command, promised_by, report, rows, service, volume
from tonnage.capacity.pools.pool_table import Pool
from tonnage.extensions.cinder.decoding.cinder_messages import Verb
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity


@pytest.fixture
def promised() -> PromisedCapacity:
    return promised_by(report(1000, 0))


def pool(promised: PromisedCapacity, name: str = POOL) -> Pool:
    found = promised.table.get(name)
    assert found is not None
    return found


def test_a_report_contains_a_volume_that_ended_before_the_report_before_it(promised: PromisedCapacity) -> None:
    promised.promise(command("v", 10))
    promised.apply_rows(rows(1004, volume("v", 10, "available", 1003)))
    promised.apply_report(report(1010, 0), 10.0)
    assert promised.in_flight(POOL) == 10, "its look may have begun before the volume was there"
    promised.apply_report(report(1020, 10), 20.0)
    assert promised.in_flight(POOL) == 0


def test_the_report_of_another_process_contains_nothing_for_certain(promised: PromisedCapacity) -> None:
    """The clocks of two hosts differ, and a service that takes over a cluster has not sent the report before."""
    promised.promise(command("v", 10))
    promised.apply_rows(rows(1004, volume("v", 10, "available", 1003)))
    promised.apply_report(report(1010, 0), 10.0)
    promised.apply_report(report(1020, 10, host="other@b"), 20.0)
    assert promised.in_flight(POOL) == 10
    promised.apply_report(report(1030, 10, host="other@b"), 30.0)
    assert promised.in_flight(POOL) == 0


@pytest.mark.parametrize("status", ["creating", "downloading", "error", "deleting", "error_deleting"])
def test_a_volume_under_way_or_in_error_stays_in_flight(promised: PromisedCapacity, status: str) -> None:
    promised.promise(command("v", 10))
    promised.apply_rows(rows(1004, volume("v", 10, status, 1003)))
    for sent_at in (1010, 1020, 1030):
        promised.apply_report(report(sent_at, 0), 0.0)
    assert promised.in_flight(POOL) == 10


def test_a_volume_that_is_gone_leaves_with_the_reports_that_contain_that(promised: PromisedCapacity) -> None:
    promised.promise(command("v", 10))
    promised.apply_rows(rows(1004))
    promised.apply_report(report(1010, 0), 0.0)
    assert promised.in_flight(POOL) == 10
    promised.apply_report(report(1020, 0), 0.0)
    assert promised.in_flight(POOL) == 0


def test_a_repeated_command_counts_once(promised: PromisedCapacity) -> None:
    promised.promise(command("v", 10))
    promised.promise(command("v", 10))
    assert promised.in_flight(POOL) == 10


def test_an_extend_counts_until_its_growth_is_in_the_figures(promised: PromisedCapacity) -> None:
    promised.apply_rows(rows(1001, volume("v", 10, "extending", 1000)))
    promised.promise(command("v", 5, verb=Verb.EXTEND))
    assert pool(promised).claimed >= 5
    promised.apply_rows(rows(1004, volume("v", 15, "available", 1003)))
    promised.apply_report(report(1010, 15), 0.0)
    promised.apply_report(report(1020, 15), 0.0)
    assert promised.in_flight(POOL) == 0


def test_a_move_counts_at_its_target_while_it_is_under_way(promised: PromisedCapacity) -> None:
    promised.apply_report(report(1002, 0, pools=("a", "z")), 0.0)
    promised.apply_rows(rows(1003, volume("v", 10, "available", 900, migration_status="migrating")))
    promised.promise(command("v", 10, OTHER, Verb.MIGRATE))
    promised.apply_rows(rows(1004, volume("v", 10, "available", 900, migration_status="migrating")))
    assert pool(promised, OTHER).claimed == 10
    promised.apply_rows(rows(1006, volume("v", 10, "available", 1005, OTHER, migration_status="success")))
    for sent_at in (1012, 1022):
        promised.apply_report(report(sent_at, 10, pools=("a", "z")), 0.0)
    assert pool(promised, OTHER).claimed == 0


def test_a_recent_row_without_a_command_is_in_flight(promised: PromisedCapacity) -> None:
    """Cinder makes some volumes without a request to a scheduler, and a gap hides commands."""
    promised.apply_rows(rows(1004, volume("v", 10, "available", 1003), volume("old", 10, "available", 500)))
    assert promised.in_flight(POOL) == 10


def test_a_volume_that_is_attached_is_not_in_flight(promised: PromisedCapacity) -> None:
    """The status of a volume changes the time of its row, and no capacity."""
    promised.apply_rows(rows(1004, volume("v", 10, "available", 500)))
    promised.apply_rows(rows(1006, volume("v", 10, "in-use", 1005, launched_at=500)))
    assert promised.in_flight(POOL) == 0
    again = promised_by(report(1000, 0))
    again.apply_rows(rows(1006, volume("v", 10, "in-use", 1005, launched_at=500)))
    assert again.in_flight(POOL) == 0, "nor when the watch begins after that"


def test_a_volume_that_moves_counts_once_when_its_service_creates_it_anew(promised: PromisedCapacity) -> None:
    promised.promise(command("v", 10, verb=Verb.MIGRATE))
    promised.promise(replace(command("copy", 10), request_id="req-v"))
    assert promised.in_flight(POOL) == 10
    live = volume("copy", 10, "available", 1003, migration_status="target:v")
    promised.apply_rows(rows(1004, live, volume("v", 10, "available", 500, OTHER, migration_status="migrating")))
    for sent_at in (1010, 1020):
        promised.apply_report(report(sent_at, 10), 0.0)
    assert promised.in_flight(POOL) == 0


def test_a_managed_volume_is_not_in_flight(promised: PromisedCapacity) -> None:
    promised.manage("v")
    promised.apply_rows(rows(1004, volume("v", 10, "available", 1003)))
    assert promised.in_flight(POOL) == 0


def test_growth_without_a_command_is_in_flight(promised: PromisedCapacity) -> None:
    promised.apply_rows(rows(1004, volume("v", 10, "available", 500)))
    promised.apply_rows(rows(1006, volume("v", 15, "available", 1005)))
    assert promised.in_flight(POOL) == 5


def test_rows_that_were_read_before_a_command_came_are_no_end_of_it(promised: PromisedCapacity) -> None:
    promised.promise(command("v", 10), now=50.0)
    promised.apply_rows(rows(1004), began=49.0)
    for sent_at in (1010, 1020, 1030):
        promised.apply_report(report(sent_at, 0), 0.0)
    assert promised.in_flight(POOL) == 10


def test_figures_of_a_report_between_two_periodic_ones_are_not_used(promised: PromisedCapacity) -> None:
    _, used = promised.apply_report(report(1005, 50, periodic=False), 5.0)
    assert not used
    assert pool(promised).provisioned == 0


def test_a_report_that_was_overtaken_is_not_used(promised: PromisedCapacity) -> None:
    _, used = promised.apply_report(report(990, 50), 5.0)
    assert not used


def test_a_pool_that_is_not_reported_any_more_is_no_candidate(promised: PromisedCapacity) -> None:
    promised.apply_report(report(1010, 0, pools=("z",)), 5.0)
    assert promised.table.get(POOL) is None
    assert promised.reported(OTHER) is not None


def test_rows_replace_a_missing_provisioned_capacity() -> None:
    promised = promised_by(report(1000, None))
    promised.promise(command("v", 10))
    assert pool(promised).allocated == 10
    promised.apply_rows(rows(1004, volume("v", 10, "creating", 1003), volume("w", 5, "available", 500)))
    assert pool(promised).allocated == 15


def test_services_decide_whether_a_backend_is_up_and_enabled(promised: PromisedCapacity) -> None:
    promised.apply_rows(rows(1001, services=(service(),)))
    assert (pool(promised).up, pool(promised).enabled, pool(promised).availability_zone) == (True, True, "nova")
    promised.apply_rows(rows(1002, services=(service(61, enabled=False),)))
    assert (pool(promised).up, pool(promised).enabled) == (False, False)
    promised.apply_rows(rows(1003, services=()))
    assert promised.table.get(POOL) is None


@pytest.mark.parametrize(("ratio", "wanted"), [("auto", 20.0), (None, 20.0), ("3.5", 3.5)])
def test_the_ratio_is_that_of_the_report_or_the_default(ratio: str | None, wanted: float) -> None:
    promised = promised_by(report(1000, 0, max_over_subscription_ratio=ratio))
    assert pool(promised).ratio == wanted
