# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- assertions are what this package is for
"""What a driver reports and declares."""

import math
import uuid
from collections.abc import Callable

import pytest

from tonnage.capacity import errors
from tonnage.capacity.over_subscription import AUTO
from tonnage.capacity.reports.audit_rules import Auditor, Volumes
from tonnage.capacity.reports.validation import validate
from tonnage.drivers.base import Driver, Source, Volume
from tonnage.drivers.contract import observations
from tonnage.drivers.contract.tested_storage import Storage


class Reports(Storage):
    """Tests of what a driver says of its pools and of itself."""

    def test_a_report_is_valid(self, driver: Driver) -> None:
        report = validate(driver.report())
        assert report.errors == ()
        assert report.remarks == ()
        assert report.pools

    def test_a_report_is_made_of_plain_values(self, driver: Driver) -> None:
        for pool in driver.report():
            observations.assert_plain(pool)

    def test_capacities_have_two_decimals(self, volume: Volume, driver: Driver) -> None:
        driver.create(volume)
        for pool in driver.report():
            for field, value in pool.items():
                if field.endswith("_capacity_gb") and isinstance(value, float):
                    assert round(value, 2) == value, f"{field} is {value}"

    def test_reports_keep_to_the_definitions(self, volume: Volume, driver: Driver) -> None:
        """No report breaks a definition of what drivers report, while volumes come and go."""
        auditor = Auditor(driver.supports_auto_ratio)

        def look(moved_gb: float) -> list[str]:
            """Return what is found after the sum of the sizes in the volume's pool has changed by so much."""
            listed = driver.list_volumes()
            held = {
                stats.name: sum(stored.size_gb for stored in listed if stored.pool == stats.name)
                for stats in observations.all_stats(driver)
            }
            known = {
                name: Volumes(least_gb=gb, all_gb=gb, moved_gb=moved_gb if name == volume.pool else 0)
                for name, gb in held.items()
            }
            return [str(finding) for finding in auditor.look(driver.report(), known)]

        assert look(0) == []
        for _ in range(2):
            driver.create(volume)
            assert look(1) == []
            driver.delete(volume)
            assert look(-1) == []

    def test_one_look_is_of_one_moment(self, volume: Volume, driver: Driver) -> None:
        """Where a driver says that its report and its list are, what is made between the two is in both or neither."""
        for asked_first in (driver.report, driver.list_volumes):
            with driver.one_look() as is_one_look:
                asked_first()
                driver.create(volume)
                listed = driver.list_volumes()
                figures = observations.stats_of(driver, volume.pool)
            if is_one_look and not math.isnan(figures.provisioned):
                held = sum(stored.size_gb for stored in listed if stored.pool == volume.pool)
                assert figures.provisioned == pytest.approx(held, abs=0.011)
                assert volume.id not in {stored.id for stored in listed}
            assert observations.sizes(driver) == {volume.id: 1}, "it is seen when that look is over"
            driver.delete(volume)

    def test_no_driver_reports_allocated_capacity(self, driver: Driver) -> None:
        assert all("allocated_capacity_gb" not in pool for pool in driver.report())

    def test_every_pool_reports_how_it_makes_volumes(self, driver: Driver) -> None:
        for stats in observations.all_stats(driver):
            assert stats.thin or stats.thick
            assert driver.supports_thin or not stats.thin
            assert driver.supports_thick or not stats.thick
            if stats.thin:
                assert not math.isnan(stats.provisioned), "pools with thin volumes report what is provisioned"

    def test_a_ratio_to_be_worked_out_is_reported_only_if_declared(self, driver: Driver) -> None:
        for stats in observations.all_stats(driver):
            assert driver.supports_auto_ratio or stats.ratio != AUTO

    def test_checking_again_changes_nothing(self, volume: Volume, driver: Driver) -> None:
        driver.create(volume)
        before = observations.figures(driver)
        driver.check()
        assert observations.figures(driver) == before
        assert observations.sizes(driver) == {volume.id: 1}

    def test_what_is_not_declared_is_refused_cleanly(self, volume: Volume, driver: Driver) -> None:
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
        assert observations.sizes(driver) == {}
