# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- assertions are what this module is for
"""The contract suite: what every storage driver promises, as tests.

For authors of drivers, in this repository or outside. It needs pytest. Subclass :class:`DriverContract` in a test
module and give it a fixture that makes drivers::

    class TestMyDriver(contract.DriverContract):
        @pytest.fixture
        def make_driver(self, tmp_path):
            return lambda: loader.build(MyDriver, "host@mine", "mine", conf_for(tmp_path))

With ``pytest.register_assert_rewrite("tonnage.drivers.contract")`` in a ``conftest.py``, failures show the values.
Tests of what a driver does not declare (thick volumes, extending) are skipped, and say so.
"""

import dataclasses
import functools
import math
import random
import threading
import uuid
from collections.abc import Callable
from concurrent import futures
from typing import Any
from typing import TypeAlias

import pytest

from tonnage.capacity import arithmetic
from tonnage.capacity import errors
from tonnage.capacity.pools import AUTO
from tonnage.capacity.pools import Pool
from tonnage.capacity.report import PoolStats
from tonnage.capacity.report import validate
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver
from tonnage.drivers.base import Terms
from tonnage.drivers.base import Volume

MakeDriver: TypeAlias = Callable[[], Driver]

#: What two decimals can hide.
_ROUNDING_GB = 0.011

_TERMS = [
    pytest.param(Terms(ratio=ratio, calculation=calculation), id=f"{calculation}-{ratio:g}")
    for calculation in arithmetic.Calculation
    for ratio in (1.0, 1.5, 3.0)
]


class DriverContract:
    """Tests of one driver. All make volumes of few GiB and expect nothing else to use the storage meanwhile."""

    #: How many volumes of 1 GiB the concurrency tests try to make beyond what fits.
    surplus = 4

    @pytest.fixture
    def make_driver(self) -> MakeDriver:
        """Override: return a function whose every call returns a new driver over the same storage, empty at first.

        Each pool should have 3 to 10 GiB, some of it free for thick volumes where the driver makes them. A call stands
        for a restart: it must not tidy up what the driver before it has left, nor tell that driver.
        """
        raise NotImplementedError("a contract test overrides the fixture make_driver")

    @pytest.fixture
    def driver(self, make_driver: MakeDriver) -> Driver:
        """A driver that has been checked and holds no volumes."""
        driver = make_driver()
        driver.check()
        assert list(driver.list_volumes()) == [], "the contract needs an empty storage"
        return driver

    @pytest.fixture(params=list(Provisioning))
    def provisioning(self, request: pytest.FixtureRequest, driver: Driver) -> Provisioning:
        """Each way of making volumes that the driver declares."""
        provisioning = Provisioning(request.param)
        declared = driver.supports_thin if provisioning is Provisioning.THIN else driver.supports_thick
        if not declared:
            pytest.skip(f"{type(driver).__name__} does not declare supports_{provisioning}")
        return provisioning

    @pytest.fixture
    def volume(self, driver: Driver, provisioning: Provisioning) -> Volume:
        """A volume of 1 GiB that has not been made yet."""
        return new_volume(driver, provisioning)

    # What a report says

    def test_a_report_is_valid(self, driver: Driver) -> None:
        report = validate(driver.report())
        assert report.errors == ()
        assert report.remarks == ()
        assert report.pools

    def test_a_report_is_made_of_plain_values(self, driver: Driver) -> None:
        for pool in driver.report():
            assert_plain(pool)

    def test_capacities_have_two_decimals(self, driver: Driver, volume: Volume) -> None:
        driver.create(volume)
        for pool in driver.report():
            for field, value in pool.items():
                if field.endswith("_capacity_gb") and isinstance(value, float):
                    assert round(value, 2) == value, f"{field} is {value}"

    def test_no_driver_reports_allocated_capacity(self, driver: Driver) -> None:
        assert all("allocated_capacity_gb" not in pool for pool in driver.report())

    def test_every_pool_reports_how_it_makes_volumes(self, driver: Driver) -> None:
        for stats in all_stats(driver):
            assert stats.thin or stats.thick
            assert driver.supports_thin or not stats.thin
            assert driver.supports_thick or not stats.thick
            if stats.thin:
                assert not math.isnan(stats.provisioned), "pools with thin volumes report what is provisioned"

    def test_a_ratio_to_be_worked_out_is_reported_only_if_declared(self, driver: Driver) -> None:
        for stats in all_stats(driver):
            assert driver.supports_auto_ratio or stats.ratio != AUTO

    def test_checking_again_changes_nothing(self, driver: Driver, volume: Volume) -> None:
        driver.create(volume)
        before = figures(driver)
        driver.check()
        assert figures(driver) == before
        assert sizes(driver) == {volume.id: 1}

    # Creating

    def test_a_created_volume_is_listed(self, driver: Driver, volume: Volume) -> None:
        driver.create(volume)
        (stored,) = driver.list_volumes()
        assert (stored.id, stored.pool, stored.size_gb) == (volume.id, volume.pool, 1)

    def test_a_created_volume_is_in_the_next_report(self, driver: Driver, volume: Volume) -> None:
        before = stats_of(driver, volume.pool)
        driver.create(volume)
        after = stats_of(driver, volume.pool)
        assert after.total == before.total
        assert_grown(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            assert_grown(after.free, before.free, 1)
        else:
            assert before.free - after.free < 0.5, "a thin volume takes up nothing until it is written"

    def test_creating_again_succeeds_and_changes_nothing(self, driver: Driver, volume: Volume) -> None:
        driver.create(volume)
        before = figures(driver)
        driver.create(volume)
        assert figures(driver) == before
        assert sizes(driver) == {volume.id: 1}

    def test_creating_again_succeeds_in_a_full_pool(self, driver: Driver, provisioning: Provisioning) -> None:
        volume = new_volume(driver, provisioning)
        volume = resized(volume, headroom(driver, volume))
        driver.create(volume)
        driver.create(volume)
        assert sizes(driver) == {volume.id: volume.size_gb}

    def test_creating_in_another_size_fails_and_changes_nothing(self, driver: Driver, volume: Volume) -> None:
        driver.create(volume)
        with pytest.raises(errors.DriverError):
            driver.create(resized(volume, 2))
        assert sizes(driver) == {volume.id: 1}

    def test_an_unknown_pool_is_an_error(self, driver: Driver, volume: Volume) -> None:
        elsewhere = dataclasses.replace(volume, pool="no-such-pool")
        for operation in (driver.create, driver.delete, lambda volume: driver.extend(volume, 2)):
            with pytest.raises(errors.TonnageError, match="no-such-pool"):
                operation(elsewhere)
        assert sizes(driver) == {}

    # Limits

    @pytest.mark.parametrize("terms", _TERMS)
    def test_the_headroom_is_admitted_and_one_gib_more_is_not(
        self, driver: Driver, provisioning: Provisioning, terms: Terms
    ) -> None:
        volume = new_volume(driver, provisioning, terms=terms)
        largest = headroom(driver, volume)
        with pytest.raises(errors.CapacityExceeded, match=volume.pool):
            driver.create(resized(volume, largest + 1))
        assert sizes(driver) == {}, "a refused volume left something behind"
        driver.create(resized(volume, largest))
        with pytest.raises(errors.CapacityExceeded):
            driver.create(new_volume(driver, provisioning, terms=terms, size_gb=headroom(driver, volume) + 1))
        assert sizes(driver) == {volume.id: largest}

    def test_the_limit_holds_without_a_scheduler(self, driver: Driver, volume: Volume) -> None:
        with pytest.raises(errors.CapacityExceeded):
            driver.create(resized(volume, 1_000_000))
        assert sizes(driver) == {}

    def test_threads_fill_a_pool_exactly(self, driver: Driver, provisioning: Provisioning) -> None:
        # An automatic ratio would change under way: a scheduler fixes it with the request.
        terms = Terms(ratio=1.5, calculation=arithmetic.Calculation.CINDER)
        first = new_volume(driver, provisioning, terms=terms)
        room = room_for_single_gibs(driver, first)
        volumes = [new_volume(driver, provisioning, terms=terms) for _ in range(room + self.surplus)]
        made = run_together([functools.partial(driver.create, volume) for volume in volumes])
        assert all(error is None or isinstance(error, errors.CapacityExceeded) for error in made), made
        assert sum(error is None for error in made) == room
        assert sizes(driver) == {volume.id: 1 for volume, error in zip(volumes, made, strict=True) if error is None}
        assert headroom(driver, first) == 0

    # Extending

    def test_an_extended_volume_is_in_the_next_report(self, extendable: Driver, volume: Volume) -> None:
        extendable.create(volume)
        before = stats_of(extendable, volume.pool)
        extendable.extend(volume, 2)
        after = stats_of(extendable, volume.pool)
        assert sizes(extendable) == {volume.id: 2}
        assert_grown(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            assert_grown(after.free, before.free, 1)

    def test_extending_again_succeeds_and_changes_nothing(self, extendable: Driver, volume: Volume) -> None:
        extendable.create(volume)
        extendable.extend(volume, 2)
        before = figures(extendable)
        extendable.extend(volume, 2)
        assert figures(extendable) == before

    def test_extending_never_shrinks(self, extendable: Driver, provisioning: Provisioning) -> None:
        volume = new_volume(extendable, provisioning, size_gb=2)
        extendable.create(volume)
        extendable.extend(volume, 1)
        assert sizes(extendable) == {volume.id: 2}

    def test_extending_what_is_not_there(self, extendable: Driver, volume: Volume) -> None:
        with pytest.raises(errors.NotFound, match=volume.id):
            extendable.extend(volume, 2)
        assert sizes(extendable) == {}

    @pytest.mark.parametrize("terms", _TERMS)
    def test_growth_is_admitted_up_to_the_headroom(
        self, extendable: Driver, provisioning: Provisioning, terms: Terms
    ) -> None:
        volume = new_volume(extendable, provisioning, terms=terms)
        extendable.create(volume)
        largest = 1 + headroom(extendable, volume)
        before = figures(extendable)
        with pytest.raises(errors.CapacityExceeded):
            extendable.extend(volume, largest + 1)
        assert figures(extendable) == before, "a refused extend changed something"
        extendable.extend(volume, largest)
        assert sizes(extendable) == {volume.id: largest}

    @pytest.fixture
    def extendable(self, driver: Driver) -> Driver:
        """The driver, if it declares that it can extend volumes."""
        if not driver.supports_extend:
            pytest.skip(f"{type(driver).__name__} does not declare supports_extend")
        return driver

    # Deleting

    def test_deleting_brings_everything_back(self, driver: Driver, volume: Volume) -> None:
        before = figures(driver)
        driver.create(volume)
        driver.delete(volume)
        assert sizes(driver) == {}
        assert figures(driver) == before

    def test_deleting_what_is_not_there_succeeds(self, driver: Driver, volume: Volume) -> None:
        driver.delete(volume)
        driver.create(volume)
        driver.delete(volume)
        driver.delete(volume)
        assert sizes(driver) == {}

    def test_a_full_pool_takes_again_what_was_deleted(self, driver: Driver, volume: Volume) -> None:
        full = resized(volume, headroom(driver, volume))
        driver.create(full)
        driver.delete(full)
        driver.create(full)
        assert sizes(driver) == {full.id: full.size_gb}

    # Restarts

    def test_a_restarted_driver_finds_everything_as_it_was(
        self, driver: Driver, make_driver: MakeDriver, volume: Volume
    ) -> None:
        driver.create(volume)
        gone = new_volume(driver, volume.provisioning)
        driver.create(gone)
        driver.delete(gone)
        before = figures(driver)
        restarted = make_driver()
        restarted.check()
        assert sizes(restarted) == {volume.id: 1}
        assert figures(restarted) == before
        restarted.create(volume)
        restarted.delete(volume)
        assert sizes(restarted) == {}

    def test_no_check_is_needed_to_make_another_driver(self, driver: Driver, make_driver: MakeDriver) -> None:
        """The agent makes all drivers first and reports what is wrong with any before it touches a storage."""
        assert type(make_driver()) is type(driver)

    # Together

    def test_threads_working_on_different_volumes(self, driver: Driver, provisioning: Provisioning) -> None:
        rounds = random.Random(1)  # noqa: S311 -- the order of operations
        room = room_for_single_gibs(driver, new_volume(driver, provisioning))
        volumes = [new_volume(driver, provisioning) for _ in range(min(room, 4))]

        def live(volume: Volume, again: int) -> None:
            for _ in range(again):
                driver.create(volume)
                assert volume.id in sizes(driver)
                driver.delete(volume)
            driver.create(volume)

        again = [rounds.randint(1, 4) for _ in volumes]
        outcomes = run_together([functools.partial(live, *job) for job in zip(volumes, again, strict=True)])
        assert [error for error in outcomes if error is not None] == []
        assert sizes(driver) == {volume.id: 1 for volume in volumes}

    def test_reports_while_volumes_come_and_go_are_valid(self, driver: Driver, volume: Volume) -> None:
        done = threading.Event()

        def work() -> None:
            try:
                for _ in range(10):
                    driver.create(volume)
                    driver.delete(volume)
            finally:
                done.set()

        def look() -> None:
            while not done.is_set():
                assert validate(driver.report()).errors == ()
                assert set(sizes(driver)) <= {volume.id}

        assert run_together([work, look]) == [None, None]


# What the tests are made of


def new_volume(driver: Driver, provisioning: Provisioning, size_gb: int = 1, terms: Terms | None = None) -> Volume:
    """Return a volume that has not been made, in the first pool that makes such volumes."""
    thin = provisioning is Provisioning.THIN
    pool = next((stats.name for stats in all_stats(driver) if (stats.thin if thin else stats.thick)), None)
    assert pool is not None, f"no pool reports that it makes {provisioning} volumes"
    return Volume(id=str(uuid.uuid4()), pool=pool, size_gb=size_gb, provisioning=provisioning, terms=terms)


def resized(volume: Volume, size_gb: int) -> Volume:
    """Return the same volume in another size."""
    return dataclasses.replace(volume, size_gb=size_gb)


def all_stats(driver: Driver) -> tuple[PoolStats, ...]:
    """Return the validated report."""
    report = validate(driver.report())
    assert report.errors == ()
    return report.pools


def figures(driver: Driver) -> list[PoolStats]:
    """Return the validated report without what others, on the same storage, may change at any time."""
    return [dataclasses.replace(stats, storage_free=0.0) for stats in all_stats(driver)]


def stats_of(driver: Driver, pool: str) -> PoolStats:
    """Return what one pool reports."""
    return next(stats for stats in all_stats(driver) if stats.name == pool)


def sizes(driver: Driver) -> dict[str, float]:
    """Return the sizes of all volumes, each of which must be listed once."""
    listed = driver.list_volumes()
    found = {stored.id: stored.size_gb for stored in listed}
    assert len(found) == len(listed), "a volume is listed twice"
    return found


def headroom(driver: Driver, volume: Volume) -> int:
    """Return the largest volume of this kind that the pool takes now, as a scheduler works it out from the report."""
    pool, terms = as_judged(driver, volume)
    largest = float(arithmetic.headroom(pool, volume.provisioning is Provisioning.THIN, terms.calculation))
    assert math.isfinite(largest), "the contract needs pools with a limit"
    return int(largest)


def room_for_single_gibs(driver: Driver, volume: Volume) -> int:
    """Return how many volumes of 1 GiB the pool takes one after the other, thin ones staying unwritten."""
    pool, terms = as_judged(driver, volume)
    thin = volume.provisioning is Provisioning.THIN
    count = 0
    while arithmetic.admits(pool, 1, thin, terms.calculation):
        count += 1
        assert count <= 100, "the contract needs pools of few GiB"
        pool = dataclasses.replace(pool, provisioned=pool.provisioned + 1, free=pool.free if thin else pool.free - 1)
    return count


def as_judged(driver: Driver, volume: Volume) -> tuple[Pool, Terms]:
    """Return the pool of a volume as it was reported, and what is judged by."""
    stats = stats_of(driver, volume.pool)
    terms = volume.terms or driver.default_terms(stats)
    pool = Pool(
        name=volume.pool,
        total=stats.total,
        free=stats.free,
        provisioned=stats.total - stats.free if math.isnan(stats.provisioned) else stats.provisioned,
        reserved_percentage=stats.reserved_percentage,
        ratio=terms.ratio,
    )
    return pool, terms


def run_together(jobs: list[Callable[[], None]]) -> list[BaseException | None]:
    """Run all jobs at the same time; return what each has raised."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        start.wait(timeout=60)
        job()

    with futures.ThreadPoolExecutor(len(jobs)) as pool:
        return [future.exception() for future in [pool.submit(run, job) for job in jobs]]


def assert_grown(before: float, after: float, by_gb: float) -> None:
    """Check a difference between two figures of two decimals."""
    assert abs(after - before - by_gb) <= _ROUNDING_GB, f"{before} became {after}, expected a growth of {by_gb}"


def assert_plain(value: Any) -> None:
    """Check that a value can travel: made of dictionaries, lists, text, numbers, true, false and nothing."""
    if isinstance(value, dict):
        for key, inner in value.items():
            assert type(key) is str
            assert_plain(inner)
    elif isinstance(value, list):
        for inner in value:
            assert_plain(inner)
    else:
        assert value is None or type(value) in (str, int, float, bool), f"{value!r} is no plain value"
