# SPDX-License-Identifier: Apache-2.0
"""Counters of quotas that differ from the rows in two reads have drifted."""

import pathlib

import pytest

from tests.unit.extensions.cinder.quota.quota_rows import PROJECT, QuotaRows
from tests.unit.extensions.cinder.quota.test_quota_drift import count
from tests.unit.extensions.cinder.watch.quota_uses import quota_use
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.watch.findings import Category
from tonnage.extensions.cinder.watch.quota_counters import CounterDrift, QuotaCounters
from tonnage.ledger.db import database

IN_USE = (Category.QUOTA_DRIFT.value, "p", "in use volumes")
RESERVED = (Category.QUOTA_DRIFT.value, "p", "reserved volumes")
OTHER = (Category.ALLOCATED_DRIFT.value, "p", "in use volumes")


def test_a_difference_in_two_reads_is_drift() -> None:
    drift = CounterDrift()
    drifted = [quota_use(counter_in_use=5)]
    assert drift.compare(drifted, []) == ([], [])
    [finding], ended = drift.compare(drifted, [OTHER, RESERVED])
    assert finding.key == IN_USE
    assert finding.text == "Cinder's counter of volumes in use is 5 and the rows have 2: it is 3 too high"
    assert finding.numbers == {"counter": 5.0, "actual": 2.0, "drift": 3.0}
    assert ended == [RESERVED]
    assert drift.compare([quota_use()], [IN_USE]) == ([], [IN_USE])


def test_drift_of_a_resource_that_is_gone_has_ended() -> None:
    assert CounterDrift().compare([], [IN_USE, OTHER]) == ([], [IN_USE])


def test_a_difference_that_changes_is_an_operation_under_way() -> None:
    drift = CounterDrift()
    for counter in (3, 4, 3):
        assert drift.compare([quota_use(counter_in_use=counter)], [])[0] == []


@pytest.mark.parametrize("values", [{"reserved": 1}, {"open_reservations": 1, "counter_reserved": 1}])
def test_a_difference_beside_a_reservation_is_an_operation_under_way(values: dict[str, int]) -> None:
    drift = CounterDrift()
    for _ in range(3):
        assert drift.compare([quota_use(counter_in_use=1, **values)], [])[0] == []


def test_a_counter_of_what_is_reserved_drifts_too() -> None:
    drift = CounterDrift()
    drifted = [quota_use(counter_reserved=1, open_reservations=4)]
    assert drift.compare(drifted, []) == ([], [])
    [finding], _ = drift.compare(drifted, [])
    assert finding.key == RESERVED
    assert finding.text == "Cinder's counter of volumes reserved is 1 and its reservations are 4: it is 3 too low"


def test_quotas_are_read_at_intervals(tmp_path: pathlib.Path) -> None:
    rows = QuotaRows(f"sqlite:///{tmp_path}/cinder.sqlite")
    rows.put(tables.VOLUMES, size=3)
    count(rows, "volumes", 7)
    cinder = database.Database(database.create_engine(f"sqlite:///{tmp_path}/cinder.sqlite"), 2)
    counters = QuotaCounters(cinder, rows.rules, 60.0)
    found = counters.read(1000.0)
    assert found is not None
    assert {(use.project_id, use.resource): use.drift for use in found}[PROJECT, "volumes"] == 6
    assert counters.read(1059.0) is None
    assert counters.read(1060.0) is not None
    assert QuotaCounters(cinder, rows.rules, 0.0).read(1000.0) is None
    cinder.close()
    rows.close()


def test_quotas_that_cannot_be_read_are_told_once(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    cinder = database.Database(database.create_engine(f"sqlite:///{tmp_path}/empty.sqlite"), 2)
    counters = QuotaCounters(cinder, QuotaRows(f"sqlite:///{tmp_path}/cinder.sqlite").rules, 1.0)
    assert [counters.read(now) for now in (0.0, 10.0)] == [None, None]
    told = [record.message for record in caplog.records if record.name.endswith("quota_counters")]
    assert [message.partition(":")[0] for message in told] == [
        "The use of quotas in Cinder's database cannot be read, so their drift is not"
    ]
    cinder.close()
