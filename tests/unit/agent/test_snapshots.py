# SPDX-License-Identifier: Apache-2.0
"""Reports and listings, each with its place among the operations of the epoch."""

import logging
from collections.abc import Iterator, Mapping

import pytest

from tests.unit.agent import fakes
from tests.unit.agent.fakes import GatedDriver, command
from tonnage.agent.operations import Epoch, Operations
from tonnage.agent.snapshots import StorageSnapshots
from tonnage.capacity import errors
from tonnage.rpc import messages
from tonnage.rpc.messages import MOST_POOLS, REPORT_STEP


class StampSource:
    """A scheduler that gives stamps, or raises ``failure``."""

    def __init__(self) -> None:
        self.queries: list[messages.StampQuery] = []
        self.failure: Exception | None = None

    def stamps(self, query: messages.StampQuery) -> Mapping[str, int]:
        self.queries.append(query)
        if self.failure is not None:
            raise self.failure
        return dict.fromkeys(query.storage_ids, len(self.queries))


@pytest.fixture
def driver() -> GatedDriver:
    return GatedDriver()


@pytest.fixture
def scheduler() -> StampSource:
    return StampSource()


@pytest.fixture
def operations(driver: GatedDriver) -> Iterator[Operations]:
    operations = Operations(driver, 2, 600.0, fakes.Owner(lambda outcome: None, lambda error: None))
    operations.begin_epoch(Epoch(1))
    yield operations
    operations.close()


@pytest.fixture
def snapshots(driver: GatedDriver, operations: Operations, scheduler: StampSource) -> StorageSnapshots:
    return StorageSnapshots(driver, operations, scheduler, quiet_wait=0.0, quiet_look=60.0)


def test_a_report_has_the_figures_and_its_place_in_the_epoch(snapshots: StorageSnapshots, driver: GatedDriver) -> None:
    epoch = Epoch(1)
    driver.volumes["v"] = 2
    first, second = snapshots.report(epoch), snapshots.report(epoch)
    assert [(report.epoch, report.seq, report.covers) for report in (first, second)] == [
        (1, REPORT_STEP, 1),
        (1, 2 * REPORT_STEP, 2),
    ]
    assert first.pools[0]["provisioned_capacity_gb"] == 2
    assert first.backend == driver.backend


def test_a_report_tells_that_the_driver_cannot_clone(snapshots: StorageSnapshots, driver: GatedDriver) -> None:
    assert snapshots.report(Epoch(1)).pools[0]["clone_support"] is False
    driver.pools = [{"pool_name": "p", "clone_support": True}]
    assert snapshots.report(Epoch(1)).pools == driver.pools


def test_a_driver_with_too_many_pools_fails_with_the_number(snapshots: StorageSnapshots, driver: GatedDriver) -> None:
    driver.pools = [{"pool_name": "p"}] * (MOST_POOLS + 1)
    with pytest.raises(errors.DriverError, match=r"reports 200001 pools: a backend has at most 200000, so "):
        snapshots.report(Epoch(1))


def test_a_withdrawn_backend_reports_no_pools(snapshots: StorageSnapshots, driver: GatedDriver) -> None:
    snapshots.withdraw()
    assert snapshots.report(Epoch(1)).pools == []
    assert driver.calls == []


def test_stamps_are_taken_of_shared_storages_alone(snapshots: StorageSnapshots, scheduler: StampSource) -> None:
    assert snapshots.report(Epoch(1)).stamps == {}
    assert snapshots.add_shared_storages(["array", "b"])
    assert not snapshots.add_shared_storages(["array"])
    assert snapshots.report(Epoch(1)).stamps == {"array": 1, "b": 1}
    assert [query.storage_ids for query in scheduler.queries] == [["array", "b"]]


def test_a_report_goes_out_without_stamps_if_nobody_gives_any(
    snapshots: StorageSnapshots, scheduler: StampSource, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tonnage.agent.snapshots")
    snapshots.add_shared_storages(["array"])
    scheduler.failure = errors.Unavailable("no scheduler answered")
    assert [snapshots.report(Epoch(1)).stamps for _ in range(2)] == [{}, {}]
    scheduler.failure = None
    assert snapshots.report(Epoch(1)).stamps == {"array": 3}
    backend = "Backend host@backend"
    assert caplog.messages == [
        f"{backend} reports without stamps of its storages: no scheduler answered",
        f"{backend} has stamps of its storages again",
    ]


def test_a_report_repeats_outcomes_that_nobody_has_acknowledged(
    snapshots: StorageSnapshots, operations: Operations
) -> None:
    epoch = Epoch(1)
    operations.begin_epoch(epoch)
    operations.resume()
    operations.submit(command("c1", "v1"))
    fakes.eventually(operations.unacknowledged)
    report = snapshots.report(epoch)
    assert [(outcome.claim_id, outcome.ok) for outcome in report.ended] == [("c1", True)]
    assert report.covers > report.ended[0].end_tick
    operations.acknowledge("c1")
    assert snapshots.report(epoch).ended == []


def test_operations_begin_again_after_a_report_that_fails(
    snapshots: StorageSnapshots, operations: Operations, driver: GatedDriver
) -> None:
    driver.failures["report"] = [errors.DriverError("no answer")]
    with pytest.raises(errors.DriverError, match="no answer"):
        snapshots.report(Epoch(1))
    assert not operations.suspended


def test_operations_do_not_wait_for_a_long_look(
    operations: Operations, driver: GatedDriver, scheduler: StampSource
) -> None:
    snapshots = StorageSnapshots(driver, operations, scheduler, quiet_wait=0.0, quiet_look=0.001)
    driver.on_entry["report"] = lambda: fakes.eventually(lambda: not operations.suspended)
    assert snapshots.report(Epoch(1)).pools


def test_a_listing_names_operations_that_ran_meanwhile(
    snapshots: StorageSnapshots, operations: Operations, driver: GatedDriver
) -> None:
    epoch = Epoch(1)
    operations.begin_epoch(epoch)
    operations.resume()
    driver.volumes["old"] = 3.0
    open_gate = driver.close_gate("create")
    operations.submit(command("c1", "v1"))
    driver.await_entry("create")
    listing = snapshots.listing(epoch, with_figures=False)
    open_gate()
    assert [(volume.volume_id, volume.pool, volume.size_gb) for volume in listing.volumes] == [("old", "pool", 3.0)]
    assert (listing.in_hand, listing.audit_snapshots) == (["c1"], [])


def test_a_listing_with_figures_can_be_audited(snapshots: StorageSnapshots, driver: GatedDriver) -> None:
    driver.volumes["v"] = 3.0
    [snapshot] = snapshots.listing(Epoch(1), with_figures=True).audit_snapshots
    assert (snapshot.figures["pool_name"], snapshot.all_gb) == ("pool", 3.0)


@pytest.mark.parametrize("failure", [errors.DriverError("no answer"), ValueError("no answer")])
def test_a_driver_that_cannot_list_fails_with_its_reason(
    snapshots: StorageSnapshots, driver: GatedDriver, failure: Exception
) -> None:
    driver.failures["list"] = [failure]
    with pytest.raises(errors.DriverError, match="no answer"):
        snapshots.listing(Epoch(1), with_figures=False)
