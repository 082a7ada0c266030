# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Tests of clones of volumes within a backend."""

import dataclasses
import functools
import uuid

import pytest

from tonnage.capacity import arithmetic, errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Terms, Volume
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.contract.tested_storage import StorageFixtures


class CloneTests(StorageFixtures):
    """Tests of drivers that declare ``supports_clone``."""

    def test_a_clone_is_listed_and_in_the_next_report(self, cloneable: Driver, volume: Volume) -> None:
        cloneable.create(volume)
        clone, before = dataclasses.replace(volume, id=str(uuid.uuid4())), observations.stats_of(cloneable, volume.pool)
        cloneable.clone(clone, test_data.source_of(cloneable, volume))
        after = observations.stats_of(cloneable, volume.pool)
        assert observations.sizes(cloneable) == {volume.id: 1, clone.id: 1}
        observations.assert_growth(before.provisioned, after.provisioned, 1)
        if volume.provisioning is Provisioning.THICK:
            observations.assert_growth(after.free, before.free, 1)

    def test_a_clone_may_be_larger(self, cloneable: Driver, volume: Volume) -> None:
        cloneable.create(volume)
        clone = test_data.new_volume(cloneable, volume.provisioning, size_gb=2)
        cloneable.clone(clone, test_data.source_of(cloneable, volume))
        assert observations.sizes(cloneable) == {volume.id: 1, clone.id: 2}

    def test_a_clone_smaller_than_its_source_is_refused(self, cloneable: Driver, provisioning: Provisioning) -> None:
        volume = test_data.new_volume(cloneable, provisioning, size_gb=2)
        cloneable.create(volume)
        with pytest.raises(errors.DriverError) as caught:
            cloneable.clone(test_data.new_volume(cloneable, provisioning), test_data.source_of(cloneable, volume))
        assert caught.value.clean
        assert observations.sizes(cloneable) == {volume.id: 2}

    def test_cloning_again_succeeds_and_changes_nothing(self, cloneable: Driver, volume: Volume) -> None:
        cloneable.create(volume)
        clone = test_data.new_volume(cloneable, volume.provisioning)
        cloneable.clone(clone, test_data.source_of(cloneable, volume))
        before = observations.figures(cloneable)
        cloneable.clone(clone, test_data.source_of(cloneable, volume))
        assert observations.figures(cloneable) == before
        assert observations.sizes(cloneable) == {volume.id: 1, clone.id: 1}

    def test_cloning_a_missing_source_fails(self, cloneable: Driver, volume: Volume) -> None:
        source = test_data.source_of(cloneable, dataclasses.replace(volume, id=str(uuid.uuid4())))
        with pytest.raises(errors.DriverError, match=source.id) as caught:
            cloneable.clone(volume, source)
        assert caught.value.clean
        assert observations.sizes(cloneable) == {}

    @pytest.mark.parametrize("terms", test_data.TERMS)
    def test_a_clone_is_admitted_like_a_new_volume(
        self, cloneable: Driver, provisioning: Provisioning, terms: Terms
    ) -> None:
        volume = test_data.new_volume(cloneable, provisioning, terms=terms)
        cloneable.create(volume)
        source, clone = (
            test_data.source_of(cloneable, volume),
            test_data.new_volume(cloneable, provisioning, terms=terms),
        )
        largest = observations.headroom(cloneable, clone)
        with pytest.raises(errors.CapacityExceeded, match=volume.pool):
            cloneable.clone(test_data.resized(clone, largest + 1), source)
        assert observations.sizes(cloneable) == {volume.id: 1}, "a refused clone left something behind"
        cloneable.clone(test_data.resized(clone, largest), source)
        assert observations.sizes(cloneable) == {volume.id: 1, clone.id: largest}

    def test_threads_fill_a_pool_with_clones_exactly(self, cloneable: Driver, provisioning: Provisioning) -> None:
        terms = Terms(ratio=1.5, calculation=arithmetic.Calculation.CINDER)
        first = test_data.new_volume(cloneable, provisioning, terms=terms)
        cloneable.create(first)
        self._write_content(cloneable, first, 0)
        source, capacity = (
            test_data.source_of(cloneable, first),
            observations.capacity_in_1gib_volumes(cloneable, first),
        )
        clones = [test_data.new_volume(cloneable, provisioning, terms=terms) for _ in range(capacity + self.surplus)]
        outcomes = test_data.run_concurrently([functools.partial(cloneable.clone, clone, source) for clone in clones])
        assert all(error is None or isinstance(error, errors.CapacityExceeded) for error in outcomes), outcomes
        assert sum(error is None for error in outcomes) == capacity
        expected = [first, *(clone for clone, error in zip(clones, outcomes, strict=True) if error is None)]
        assert observations.sizes(cloneable) == {volume.id: 1 for volume in expected}

    def test_a_clone_has_the_content_and_is_independent_of_its_source(self, cloneable: Driver, volume: Volume) -> None:
        cloneable.create(volume)
        self._write_or_skip(cloneable, volume, 0)
        clone = test_data.new_volume(cloneable, volume.provisioning, size_gb=2)
        cloneable.clone(clone, test_data.source_of(cloneable, volume))
        self._assert_content(cloneable, clone, 0)
        self._write_or_skip(cloneable, clone, 1)
        self._assert_content(cloneable, volume, 0)
        cloneable.delete(volume)
        self._assert_content(cloneable, clone, 0, 1)

    @pytest.fixture
    def cloneable(self, declared: Driver, request: pytest.FixtureRequest) -> Driver:
        """The driver, if it declares ``supports_clone``; skips otherwise."""
        test_data.skip_unless_declared(declared, "supports_clone")
        driver: Driver = request.getfixturevalue("driver")
        return driver
