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
Tests of what a driver does not declare (thick volumes, extending, cloning, ...) are skipped, and say so. A driver that
declares ``supports_migrate`` needs a second fixture, ``make_origin``; where volumes can be read and written through a
file, :meth:`DriverContract.open_volume` lets the suite compare what is in them.
"""

import contextlib
import dataclasses
import functools
import math
import random
import threading
import uuid
from collections.abc import Callable
from concurrent import futures
from typing import Any
from typing import BinaryIO
from typing import TypeAlias

import pytest

from tonnage.capacity import arithmetic
from tonnage.capacity import errors
from tonnage.capacity.pools import AUTO
from tonnage.capacity.pools import Pool
from tonnage.capacity.report import PoolStats
from tonnage.capacity.report import validate
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver
from tonnage.drivers.base import Source
from tonnage.drivers.base import StoredVolume
from tonnage.drivers.base import Terms
from tonnage.drivers.base import Volume

MakeDriver: TypeAlias = Callable[[], Driver]

#: What two decimals can hide.
_ROUNDING_GB = 0.011

#: Content is compared in pieces of this many bytes, one at each place.
_PIECE = 1 << 20
_PLACE = 4 << 20

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
    def make_origin(self) -> MakeDriver:
        """Override if the driver declares ``supports_migrate``: return a function like that of :meth:`make_driver`.

        Its driver has another backend name and another storage, empty too, from which the one under test can take
        volumes over. Pools of 3 to 10 GiB will do here as well.
        """
        raise NotImplementedError("a contract test of a driver with supports_migrate overrides the fixture make_origin")

    def open_volume(self, driver: Driver, stored: StoredVolume) -> contextlib.AbstractContextManager[BinaryIO] | None:
        """Override if there is a way: open a volume for reading and writing, as its user would; None if it has none."""
        return None

    def reference_to(self, stored: StoredVolume) -> str:
        """Override if it is something else than the volume's id: how :meth:`Driver.manage` is told of a volume."""
        return stored.id

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

    @pytest.fixture
    def origin(self, driver: Driver, request: pytest.FixtureRequest) -> Driver:
        """A driver of another backend, from which volumes are taken over; skips if none can be."""
        declares(driver, "supports_migrate")
        origin: Driver = request.getfixturevalue("make_origin")()
        origin.check()
        assert origin.backend != driver.backend
        assert list(origin.list_volumes()) == [], "the contract needs an empty storage"
        return origin

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
        return declares(driver, "supports_extend")

    # What is not declared

    def test_what_is_not_declared_is_refused_cleanly(self, driver: Driver, volume: Volume) -> None:
        source = Source(id=str(uuid.uuid4()), backend=driver.backend, pool=volume.pool, size_gb=1)
        operations: dict[str, Callable[[], object]] = {
            "supports_clone": lambda: driver.clone(volume, source),
            "supports_migrate": lambda: driver.migrate(volume, source),
            "supports_manage": lambda: driver.manage(volume, "something"),
        }
        for ability, operation in operations.items():
            if not getattr(driver, ability):
                with pytest.raises(errors.DriverError, match=driver.backend) as caught:
                    operation()
                assert caught.value.clean
        assert sizes(driver) == {}

    # Cloning

    def test_a_clone_is_listed_and_in_the_next_report(self, cloneable: Driver, volume: Volume) -> None:
        cloneable.create(volume)
        clone, before = dataclasses.replace(volume, id=str(uuid.uuid4())), stats_of(cloneable, volume.pool)
        cloneable.clone(clone, source_of(cloneable, volume))
        after = stats_of(cloneable, volume.pool)
        assert sizes(cloneable) == {volume.id: 1, clone.id: 1}
        assert_grown(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            assert_grown(after.free, before.free, 1)

    def test_a_clone_may_be_larger(self, cloneable: Driver, volume: Volume) -> None:
        cloneable.create(volume)
        clone = new_volume(cloneable, volume.provisioning, size_gb=2)
        cloneable.clone(clone, source_of(cloneable, volume))
        assert sizes(cloneable) == {volume.id: 1, clone.id: 2}

    def test_a_clone_is_not_smaller(self, cloneable: Driver, provisioning: Provisioning) -> None:
        volume = new_volume(cloneable, provisioning, size_gb=2)
        cloneable.create(volume)
        with pytest.raises(errors.DriverError) as caught:
            cloneable.clone(new_volume(cloneable, provisioning), source_of(cloneable, volume))
        assert caught.value.clean
        assert sizes(cloneable) == {volume.id: 2}

    def test_cloning_again_succeeds_and_changes_nothing(self, cloneable: Driver, volume: Volume) -> None:
        cloneable.create(volume)
        clone = new_volume(cloneable, volume.provisioning)
        cloneable.clone(clone, source_of(cloneable, volume))
        before = figures(cloneable)
        cloneable.clone(clone, source_of(cloneable, volume))
        assert figures(cloneable) == before
        assert sizes(cloneable) == {volume.id: 1, clone.id: 1}

    def test_cloning_what_is_not_there(self, cloneable: Driver, volume: Volume) -> None:
        source = source_of(cloneable, dataclasses.replace(volume, id=str(uuid.uuid4())))
        with pytest.raises(errors.DriverError, match=source.id) as caught:
            cloneable.clone(volume, source)
        assert caught.value.clean
        assert sizes(cloneable) == {}

    @pytest.mark.parametrize("terms", _TERMS)
    def test_a_clone_is_admitted_as_a_new_volume_is(
        self, cloneable: Driver, provisioning: Provisioning, terms: Terms
    ) -> None:
        volume = new_volume(cloneable, provisioning, terms=terms)
        cloneable.create(volume)
        source, clone = source_of(cloneable, volume), new_volume(cloneable, provisioning, terms=terms)
        largest = headroom(cloneable, clone)
        with pytest.raises(errors.CapacityExceeded, match=volume.pool):
            cloneable.clone(resized(clone, largest + 1), source)
        assert sizes(cloneable) == {volume.id: 1}, "a refused clone left something behind"
        cloneable.clone(resized(clone, largest), source)
        assert sizes(cloneable) == {volume.id: 1, clone.id: largest}

    def test_threads_fill_a_pool_with_clones_exactly(self, cloneable: Driver, provisioning: Provisioning) -> None:
        terms = Terms(ratio=1.5, calculation=arithmetic.Calculation.CINDER)
        first = new_volume(cloneable, provisioning, terms=terms)
        cloneable.create(first)
        self._fill(cloneable, first, 0)
        source, room = source_of(cloneable, first), room_for_single_gibs(cloneable, first)
        clones = [new_volume(cloneable, provisioning, terms=terms) for _ in range(room + self.surplus)]
        made = run_together([functools.partial(cloneable.clone, clone, source) for clone in clones])
        assert all(error is None or isinstance(error, errors.CapacityExceeded) for error in made), made
        assert sum(error is None for error in made) == room
        expected = [first, *(clone for clone, error in zip(clones, made, strict=True) if error is None)]
        assert sizes(cloneable) == {volume.id: 1 for volume in expected}

    def test_a_clone_has_the_content_and_a_life_of_its_own(self, cloneable: Driver, volume: Volume) -> None:
        cloneable.create(volume)
        self._write(cloneable, volume, 0)
        clone = new_volume(cloneable, volume.provisioning, size_gb=2)
        cloneable.clone(clone, source_of(cloneable, volume))
        self._assert_holds(cloneable, clone, 0)
        self._write(cloneable, clone, 1)
        self._assert_holds(cloneable, volume, 0)
        cloneable.delete(volume)
        self._assert_holds(cloneable, clone, 0, 1)

    @pytest.fixture
    def cloneable(self, driver: Driver) -> Driver:
        """The driver, if it declares that it can clone volumes."""
        return declares(driver, "supports_clone")

    # Taking volumes over from elsewhere

    def test_every_pool_says_where_it_is(self, driver: Driver, origin: Driver) -> None:
        for stats in (*all_stats(driver), *all_stats(origin)):
            location = stats.capabilities.get("location_info")
            assert isinstance(location, str)
            assert location

    def test_a_migrated_volume_is_there_and_its_source_too(
        self, driver: Driver, origin: Driver, volume: Volume
    ) -> None:
        there = self._made_at(origin, volume)
        before, untouched = stats_of(driver, volume.pool), figures(origin)
        driver.migrate(volume, source_of(origin, there))
        after = stats_of(driver, volume.pool)
        assert sizes(driver) == {volume.id: 1}
        assert_grown(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            assert_grown(after.free, before.free, 1)
        assert sizes(origin) == {volume.id: 1}
        assert figures(origin) == untouched

    def test_migrating_again_succeeds_and_changes_nothing(
        self, driver: Driver, origin: Driver, make_driver: MakeDriver, volume: Volume
    ) -> None:
        there = self._made_at(origin, volume)
        self._fill(origin, there, 0)
        source = source_of(origin, there)
        driver.migrate(volume, source)
        before = figures(driver)
        driver.migrate(volume, source)
        restarted = make_driver()
        restarted.check()
        restarted.migrate(volume, source)
        assert figures(restarted) == before
        assert sizes(restarted) == {volume.id: 1}

    def test_a_volume_that_was_migrated_can_be_worked_on(self, driver: Driver, origin: Driver, volume: Volume) -> None:
        before = figures(driver)
        there = self._made_at(origin, volume)
        driver.migrate(volume, source_of(origin, there))
        origin.delete(there)
        if driver.supports_extend:
            driver.extend(volume, 2)
            assert sizes(driver) == {volume.id: 2}
        driver.delete(volume)
        assert figures(driver) == before

    def test_a_source_that_is_out_of_reach(self, driver: Driver, origin: Driver, volume: Volume) -> None:
        source = dataclasses.replace(source_of(origin, self._made_at(origin, volume)), location="nowhere:at:all")
        with pytest.raises(errors.DriverError, match="nowhere") as caught:
            driver.migrate(volume, source)
        assert caught.value.clean
        assert sizes(driver) == {}

    @pytest.mark.parametrize("terms", _TERMS)
    def test_a_migrated_volume_is_admitted_as_a_new_one_is(
        self, driver: Driver, origin: Driver, provisioning: Provisioning, terms: Terms
    ) -> None:
        volume = new_volume(driver, provisioning, terms=terms)
        source, largest = source_of(origin, self._made_at(origin, volume)), headroom(driver, volume)
        with pytest.raises(errors.CapacityExceeded, match=volume.pool):
            driver.migrate(resized(volume, largest + 1), source)
        assert sizes(driver) == {}, "a refused migration left something behind"
        driver.migrate(resized(volume, largest), source)
        assert sizes(driver) == {volume.id: largest}

    def test_a_migrated_volume_has_the_content(self, driver: Driver, origin: Driver, volume: Volume) -> None:
        there = self._made_at(origin, volume)
        self._write(origin, there, 0)
        driver.migrate(volume, source_of(origin, there))
        self._assert_holds(driver, volume, 0)
        self._assert_holds(origin, there, 0)
        origin.delete(there)
        self._assert_holds(driver, volume, 0)

    def test_another_content_is_not_taken_for_the_volume(self, driver: Driver, origin: Driver, volume: Volume) -> None:
        """Its source would be deleted."""
        there = self._made_at(origin, volume)
        self._write(origin, there, 0)
        driver.create(volume)
        self._write(driver, volume, 1)
        with pytest.raises(errors.DriverError) as caught:
            driver.migrate(volume, source_of(origin, there))
        assert not caught.value.clean
        self._assert_holds(driver, volume, 1)
        self._assert_holds(origin, there, 0)

    # Managing

    def test_a_managed_volume_goes_by_its_new_id(self, manageable: Driver, volume: Volume) -> None:
        reference = self._unmanaged(manageable, volume)
        before = figures(manageable)
        managed = new_volume(manageable, volume.provisioning, size_gb=0)
        assert manageable.manage(managed, reference) == 1
        assert sizes(manageable) == {managed.id: 1}
        assert figures(manageable) == before

    def test_managing_again_succeeds_and_changes_nothing(
        self, manageable: Driver, make_driver: MakeDriver, volume: Volume
    ) -> None:
        reference = self._unmanaged(manageable, volume)
        managed = new_volume(manageable, volume.provisioning, size_gb=0)
        manageable.manage(managed, reference)
        before = figures(manageable)
        assert manageable.manage(managed, reference) == 1
        restarted = make_driver()
        restarted.check()
        assert restarted.manage(managed, reference) == 1
        assert sizes(restarted) == {managed.id: 1}
        assert figures(restarted) == before

    def test_managing_what_is_not_there(self, manageable: Driver, volume: Volume) -> None:
        with pytest.raises(errors.DriverError, match="no-such-thing") as caught:
            manageable.manage(volume, "no-such-thing")
        assert caught.value.clean
        assert sizes(manageable) == {}

    def test_managing_under_an_id_that_is_taken(self, manageable: Driver, volume: Volume) -> None:
        reference = self._unmanaged(manageable, volume)
        taken = new_volume(manageable, volume.provisioning)
        manageable.create(taken)
        with pytest.raises(errors.DriverError, match=taken.id):
            manageable.manage(taken, reference)
        assert sizes(manageable) == {volume.id: 1, taken.id: 1}

    def test_a_full_pool_does_not_keep_a_volume_from_being_managed(
        self, manageable: Driver, provisioning: Provisioning
    ) -> None:
        volume = new_volume(manageable, provisioning)
        volume = resized(volume, headroom(manageable, volume))
        reference = self._unmanaged(manageable, volume)
        managed = dataclasses.replace(volume, id=str(uuid.uuid4()), size_gb=0)
        assert manageable.manage(managed, reference) == volume.size_gb

    def test_a_managed_volume_can_be_worked_on(self, manageable: Driver, volume: Volume) -> None:
        empty = figures(manageable)
        reference = self._unmanaged(manageable, volume)
        written = self._fill(manageable, volume, 0)
        managed = new_volume(manageable, volume.provisioning)
        manageable.manage(managed, reference)
        if written:
            self._assert_holds(manageable, managed, 0)
        if manageable.supports_extend:
            manageable.extend(managed, 2)
            assert sizes(manageable) == {managed.id: 2}
        manageable.delete(managed)
        assert figures(manageable) == empty

    @pytest.fixture
    def manageable(self, driver: Driver) -> Driver:
        """The driver, if it declares that it can manage what is on its storage."""
        return declares(driver, "supports_manage")

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

    # What the tests do to volumes

    def _made_at(self, origin: Driver, volume: Volume) -> Volume:
        """Make the volume at a place from which it is taken over, and return it as it is there."""
        kind = Provisioning.THIN if origin.supports_thin else Provisioning.THICK
        there = dataclasses.replace(new_volume(origin, kind), id=volume.id)
        origin.create(there)
        return there

    def _unmanaged(self, driver: Driver, volume: Volume) -> str:
        """Make something that is to be managed, and return how it is called."""
        driver.create(volume)
        return self.reference_to(stored_as(driver, volume.id))

    def _write(self, driver: Driver, volume: Volume, seed: int) -> None:
        """Write to a volume; skips where the suite cannot."""
        if not self._fill(driver, volume, seed):
            pytest.skip("the tests of this driver do not override open_volume, so no content can be compared")

    def _fill(self, driver: Driver, volume: Volume, seed: int) -> bool:
        """Write here and there to the first GiB of a volume; tell whether that can be done."""
        opened = self.open_volume(driver, stored_as(driver, volume.id))
        if opened is None:
            return False
        with opened as file:
            for offset, data in pieces(seed).items():
                file.seek(offset)
                file.write(data)
        return True

    def _assert_holds(self, driver: Driver, volume: Volume, *seeds: int) -> None:
        """See that the first GiB of a volume is as if these had been written to it in this order."""
        expected = {offset: data for seed in seeds for offset, data in pieces(seed).items()}
        opened = self.open_volume(driver, stored_as(driver, volume.id))
        assert opened is not None
        with opened as file:
            for offset in range(0, GIB, _PLACE):
                file.seek(offset)
                assert file.read(_PIECE) == expected.get(offset, bytes(_PIECE)), f"{volume.id} differs at {offset}"


# What the tests are made of


def new_volume(driver: Driver, provisioning: Provisioning, size_gb: int = 1, terms: Terms | None = None) -> Volume:
    """Return a volume that has not been made, in the first pool that makes such volumes."""
    thin = provisioning is Provisioning.THIN
    pool = next((stats.name for stats in all_stats(driver) if (stats.thin if thin else stats.thick)), None)
    assert pool is not None, f"no pool reports that it makes {provisioning} volumes"
    return Volume(id=str(uuid.uuid4()), pool=pool, size_gb=size_gb, provisioning=provisioning, terms=terms)


def declares(driver: Driver, ability: str) -> Driver:
    """Return the driver if it declares the ability; else skip the test."""
    if not getattr(driver, ability):
        pytest.skip(f"{type(driver).__name__} does not declare {ability}")
    return driver


def source_of(driver: Driver, volume: Volume) -> Source:
    """Return a volume of this driver as the source of a copy."""
    location = stats_of(driver, volume.pool).capabilities.get("location_info", "")
    return Source(
        id=volume.id, backend=driver.backend, pool=volume.pool, size_gb=volume.size_gb, location=str(location)
    )


def stored_as(driver: Driver, volume_id: str) -> StoredVolume:
    """Return a volume as it is listed."""
    return next(stored for stored in driver.list_volumes() if stored.id == volume_id)


def pieces(seed: int) -> dict[int, bytes]:
    """Return what to write where in a volume of 1 GiB: at both ends, and in a few of the places between."""
    draw = random.Random(seed)  # noqa: S311 -- something to write
    places = [0, *draw.sample(range(_PLACE, GIB - _PLACE, _PLACE), 5), GIB - _PLACE]
    return {place: draw.randbytes(_PIECE) for place in places}


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
    return [stats._replace(storage_free=0.0) for stats in all_stats(driver)]


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
