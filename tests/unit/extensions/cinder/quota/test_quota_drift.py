# SPDX-License-Identifier: Apache-2.0
"""The drift of Cinder's counters against the rows."""

import datetime
import uuid

import sqlalchemy as sa

from tests.unit.extensions.cinder.quota.quota_rows import LATE, PROJECT, QuotaRows
from tonnage.extensions.cinder.quota import quota_drift
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota.quota_drift import ResourceUse
from tonnage.extensions.cinder.quota.quota_usage import Use


def count(rows: QuotaRows, resource: str, in_use: int, reserved: int = 0, until_refresh: int | None = None) -> None:
    """Set a counter of Cinder."""
    values = {"in_use": in_use, "reserved": reserved, "until_refresh": until_refresh, "resource": resource}
    with rows.engine.begin() as connection:
        connection.execute(
            sa.insert(tables.USAGES).values(project_id=PROJECT, race_preventer=True, deleted=False, **values)
        )


def hold(rows: QuotaRows, resource: str, delta: int) -> None:
    """Make a reservation of Cinder's own driver, a day old."""
    with rows.engine.begin() as connection:
        connection.execute(
            sa.insert(tables.RESERVATIONS).values(
                uuid=str(uuid.uuid4()),
                project_id=PROJECT,
                resource=resource,
                delta=delta,
                expire=LATE,
                created_at=LATE - datetime.timedelta(days=40_000),
                deleted=False,
            )
        )


def read(rows: QuotaRows, project_id: str | None = None) -> dict[str, ResourceUse]:
    with rows.engine.connect() as connection:
        found = quota_drift.read(connection, rows.rules, project_id)
    assert [use.resource for use in found] == sorted(use.resource for use in found)
    return {use.resource: use for use in found}


def test_a_counter_above_or_below_the_rows_has_drifted(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, size=3)
    count(rows, "volumes", 2)
    count(rows, "gigabytes", 1)
    count(rows, "backups", 0)
    found = read(rows)
    assert {name: use.drift for name, use in found.items()} == {"volumes": 1, "gigabytes": -2, "backups": 0}
    assert found["gigabytes"].use == Use(3)
    assert found["gigabytes"].counter_in_use == 1


def test_a_counter_that_is_counted_anew_has_not_drifted(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, size=3)
    count(rows, "volumes", 70, until_refresh=1)
    count(rows, "backups", 70, until_refresh=-5)
    count(rows, "gigabytes", 70, until_refresh=2)
    assert {name: use.drift for name, use in read(rows).items()} == {"volumes": 0, "backups": 0, "gigabytes": 67}


def test_a_resource_without_a_counter_has_not_drifted(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, size=3)
    assert {(use.drift, use.reserved_drift, use.counter_in_use) for use in read(rows).values()} == {(0, 0, None)}


def test_what_is_reserved_drifts_against_the_reservations(rows: QuotaRows) -> None:
    count(rows, "volumes", 0, reserved=3)
    count(rows, "gigabytes", 0, reserved=5)
    hold(rows, "gigabytes", 5)
    hold(rows, "gigabytes", -5)
    found = read(rows)
    assert {name: use.reserved_drift for name, use in found.items()} == {"volumes": 3, "gigabytes": 0}
    assert found["gigabytes"].open_reservations == 5
    assert found["gigabytes"].use == Use()


def test_counters_of_types_that_are_gone_are_left_out(rows: QuotaRows) -> None:
    with rows.engine.begin() as connection:
        for name, deleted in (("gold", False), ("lead", True)):
            connection.execute(sa.insert(tables.VOLUME_TYPES).values(id=f"t-{name}", name=name, deleted=deleted))
    rows.put(tables.VOLUMES, size=3, volume_type_id="t-gold")
    count(rows, "volumes_gold", 4)
    count(rows, "volumes_lead", 9)
    found = read(rows)
    assert found["volumes_gold"].drift == 3
    assert "volumes_lead" not in found


def test_one_project_is_read_alone(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, size=3)
    rows.put(tables.VOLUMES, size=9, project_id="q")
    count(rows, "volumes", 1)
    assert read(rows, "q")["gigabytes"].use == Use(9)
    with rows.engine.connect() as connection:
        assert {use.project_id for use in quota_drift.read(connection, rows.rules)} == {PROJECT, "q"}
