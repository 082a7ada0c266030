# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- assertions are what this package is for
"""Several threads work at the same time."""

import functools
import random
import threading

from tonnage.capacity.reports.validation import validate
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.contract import observations, test_data
from tonnage.drivers.contract.tested_storage import Storage


class Together(Storage):
    """Tests of operations that meet each other."""

    def test_threads_working_on_different_volumes(self, provisioning: Provisioning, driver: Driver) -> None:
        rounds = random.Random(1)  # noqa: S311 -- the order of operations
        room = observations.room_for_single_gibs(driver, test_data.new_volume(driver, provisioning))
        volumes = [test_data.new_volume(driver, provisioning) for _ in range(min(room, 4))]

        def live(volume: Volume, again: int) -> None:
            for _ in range(again):
                driver.create(volume)
                assert volume.id in observations.sizes(driver)
                driver.delete(volume)
            driver.create(volume)

        again = [rounds.randint(1, 4) for _ in volumes]
        outcomes = test_data.run_together([functools.partial(live, *job) for job in zip(volumes, again, strict=True)])
        assert [error for error in outcomes if error is not None] == []
        assert observations.sizes(driver) == {volume.id: 1 for volume in volumes}

    def test_reports_while_volumes_come_and_go_are_valid(self, volume: Volume, driver: Driver) -> None:
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
                assert set(observations.sizes(driver)) <= {volume.id}

        assert test_data.run_together([work, look]) == [None, None]
