# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Tests of parallel operations in several threads."""

import functools
import random
import threading

from tonnage.capacity.reports.validation import validate
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.contract.tested_storage import StorageFixtures


class ConcurrencyTests(StorageFixtures):
    """Tests of operations that run at the same time."""

    def test_threads_can_work_on_different_volumes(self, provisioning: Provisioning, driver: Driver) -> None:
        random_order = random.Random(1)  # noqa: S311 -- the order of operations
        capacity = observations.capacity_in_1gib_volumes(driver, test_data.new_volume(driver, provisioning))
        volumes = [test_data.new_volume(driver, provisioning) for _ in range(min(capacity, 4))]

        def create_and_delete(volume: Volume, repetitions: int) -> None:
            for _ in range(repetitions):
                driver.create(volume)
                assert volume.id in observations.sizes(driver)
                driver.delete(volume)
            driver.create(volume)

        repetitions = [random_order.randint(1, 4) for _ in volumes]
        outcomes = test_data.run_concurrently(
            [functools.partial(create_and_delete, *job) for job in zip(volumes, repetitions, strict=True)]
        )
        assert [error for error in outcomes if error is not None] == []
        assert observations.sizes(driver) == {volume.id: 1 for volume in volumes}

    def test_reports_are_valid_while_volumes_are_created_and_deleted(self, volume: Volume, driver: Driver) -> None:
        done = threading.Event()

        def change() -> None:
            try:
                for _ in range(10):
                    driver.create(volume)
                    driver.delete(volume)
            finally:
                done.set()

        def query() -> None:
            while not done.is_set():
                assert validate(driver.report()).errors == ()
                assert set(observations.sizes(driver)) <= {volume.id}

        assert test_data.run_concurrently([change, query]) == [None, None]
