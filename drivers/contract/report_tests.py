# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S101 -- the purpose of this package is assertions
"""Tests of the reports and the declarations of a driver."""

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
from tonnage.drivers.contract.tested_storage import StorageFixtures


class ReportTests(StorageFixtures):
    """Tests of reports and declarations."""

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

    def test_reports_follow_the_definitions(self, volume: Volume, driver: Driver) -> None:
        """No report breaks a definition of the documentation while volumes are created and deleted."""
        auditor = Auditor(driver.supports_auto_ratio)

        def audit(moved_gb: float) -> list[str]:
            """Return the findings of the audit after a change of the pool's volume sizes by ``moved_gb`` in total."""
            listed = driver.list_volumes()
            listed_gb = {
                stats.name: sum(stored.size_gb for stored in listed if stored.pool == stats.name)
                for stats in observations.all_stats(driver)
            }
            volumes = {
                name: Volumes(least_gb=gb, all_gb=gb, moved_gb=moved_gb if name == volume.pool else 0)
                for name, gb in listed_gb.items()
            }
            return [str(finding) for finding in auditor.look(driver.report(), volumes)]

        assert audit(0) == []
        for _ in range(2):
            driver.create(volume)
            assert audit(1) == []
            driver.delete(volume)
            assert audit(-1) == []

    def test_report_and_list_of_one_look_agree(self, volume: Volume, driver: Driver) -> None:
        """If report and list use one snapshot, a volume created between the two calls is in neither."""
        for first_call in (driver.report, driver.list_volumes):
            with driver.one_look() as is_one_look:
                first_call()
                driver.create(volume)
                listed = driver.list_volumes()
                figures = observations.stats_of(driver, volume.pool)
            if is_one_look and not math.isnan(figures.provisioned):
                listed_gb = sum(stored.size_gb for stored in listed if stored.pool == volume.pool)
                assert figures.provisioned == pytest.approx(listed_gb, abs=0.011)
                assert volume.id not in {stored.id for stored in listed}
            assert observations.sizes(driver) == {volume.id: 1}, "the volume is visible after the snapshot"
            driver.delete(volume)

    def test_no_driver_reports_allocated_capacity(self, driver: Driver) -> None:
        assert all("allocated_capacity_gb" not in pool for pool in driver.report())

    def test_every_pool_reports_its_provisioning(self, driver: Driver) -> None:
        for stats in observations.all_stats(driver):
            assert stats.thin or stats.thick
            assert driver.supports_thin or not stats.thin
            assert driver.supports_thick or not stats.thick
            if stats.thin:
                assert not math.isnan(stats.provisioned), "pools with thin volumes report the provisioned capacity"

    def test_the_ratio_auto_is_reported_only_if_declared(self, driver: Driver) -> None:
        for stats in observations.all_stats(driver):
            assert driver.supports_auto_ratio or stats.ratio != AUTO

    def test_checking_again_changes_nothing(self, volume: Volume, driver: Driver) -> None:
        driver.create(volume)
        before = observations.figures(driver)
        driver.check()
        assert observations.figures(driver) == before
        assert observations.sizes(driver) == {volume.id: 1}

    def test_an_undeclared_operation_is_refused_cleanly(self, volume: Volume, driver: Driver) -> None:
        source = Source(id=str(uuid.uuid4()), backend=driver.backend, pool=volume.pool, size_gb=1)
        operations: dict[str, Callable[[], object]] = {
            "supports_clone": lambda: driver.clone(volume, source),
            "supports_migrate": lambda: driver.migrate(volume, source),
            "supports_manage": lambda: driver.manage(volume, "something"),
        }
        for flag, operation in operations.items():
            if not getattr(driver, flag):
                with pytest.raises(errors.DriverError, match=driver.backend) as caught:
                    operation()
                assert caught.value.clean
        assert observations.sizes(driver) == {}
