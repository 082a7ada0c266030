# SPDX-License-Identifier: Apache-2.0
"""Reservations are admitted while the limits allow it, and end with their rows."""

import concurrent.futures
import time
import uuid

import pytest
import sqlalchemy as sa

from tests.unit.extensions.cinder.quota.quota_rows import (
    GIGABYTES,
    GIGABYTES_GOLD,
    LATE,
    PROJECT,
    SNAPSHOTS,
    VOLUMES,
    VOLUMES_GOLD,
    QuotaRows,
)
from tonnage.capacity import errors
from tonnage.extensions.cinder.quota import quota_operations as operations
from tonnage.extensions.cinder.quota import quota_reservations
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota.quota_operations import Booking
from tonnage.extensions.cinder.quota.quota_reservations import LimitExceeded
from tonnage.extensions.cinder.quota.quota_usage import Use


def test_a_reservation_up_to_the_limit_is_admitted(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, size=4)
    assert rows.reserve((VOLUMES, 1, 2), (GIGABYTES, 6, 10)) is not None
    with pytest.raises(LimitExceeded) as refusal:
        rows.reserve((VOLUMES, 1, 2), (GIGABYTES, 1, 10))
    assert refusal.value.names == ["gigabytes", "volumes"]
    assert refusal.value.use == {"volumes": Use(1, 1), "gigabytes": Use(4, 6)}
    assert str(refusal.value) == "the limit of gigabytes, volumes would be exceeded"


def test_a_refusal_has_the_use_of_resources_without_a_limit(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, size=4, volume_type_id="t-gold")
    with pytest.raises(LimitExceeded) as refusal:
        rows.reserve((GIGABYTES, 7, -1), (GIGABYTES_GOLD, 7, 10))
    assert refusal.value.names == ["gigabytes_gold"]
    assert refusal.value.use == {"gigabytes": Use(4), "gigabytes_gold": Use(4)}


def test_a_project_without_limits_gets_all(rows: QuotaRows) -> None:
    for _ in range(3):
        assert rows.reserve((VOLUMES, 1, -1), (GIGABYTES, 1000, -1)) is not None
    assert rows.use() == {"volumes": (0, 3), "gigabytes": (0, 3000)}


def test_a_limit_of_zero_admits_nothing(rows: QuotaRows) -> None:
    with pytest.raises(LimitExceeded):
        rows.reserve((VOLUMES, 1, 0))
    assert rows.reservations() == 0


def test_a_limit_below_use_refuses_all_but_less(rows: QuotaRows) -> None:
    for _ in range(3):
        rows.put(tables.VOLUMES, size=5)
    for delta in (0, 1):
        with pytest.raises(LimitExceeded):
            rows.reserve((VOLUMES, delta, 2))
    assert rows.reserve((VOLUMES, -1, 2), (GIGABYTES, -5, 2)) is None
    assert rows.reservations() == 0


def test_nothing_is_reserved_for_nothing(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, size=1)
    assert rows.reserve((SNAPSHOTS, 0, 10), (GIGABYTES, 0, 10)) is None
    assert rows.reserve((GIGABYTES, 0, -1)) is None
    assert rows.reservations() == 0


def test_projects_have_limits_of_their_own(rows: QuotaRows) -> None:
    rows.reserve((VOLUMES, 1, 1))
    assert rows.reserve((VOLUMES, 1, 1), project="q") is not None


def test_types_have_limits_of_their_own(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, size=1, volume_type_id="t-gold")
    rows.put(tables.VOLUMES, size=1, volume_type_id="t-other")
    assert rows.reserve((VOLUMES, 1, -1), (VOLUMES_GOLD, 1, 2)) is not None
    with pytest.raises(LimitExceeded) as refusal:
        rows.reserve((VOLUMES, 1, -1), (VOLUMES_GOLD, 1, 2))
    assert refusal.value.names == ["volumes_gold"]


def test_a_rollback_ends_a_reservation(rows: QuotaRows) -> None:
    identifier = rows.reserve((VOLUMES, 1, 1), (GIGABYTES, 1, 10))
    assert identifier is not None
    rows.book.roll_back(rows.engine.begin, [identifier])
    assert rows.reservations() == 0
    assert rows.reserve((VOLUMES, 1, 1)) is not None


def test_a_commit_ends_a_reservation_for_a_new_row(rows: QuotaRows) -> None:
    identifier = rows.reserve((VOLUMES, 1, 1), (GIGABYTES, 1, 10))
    assert identifier is not None
    assert rows.book.commit(rows.engine.begin, [identifier]) == []
    assert rows.reservations() == 0


def test_a_committed_extension_counts_until_the_volume_is_larger(rows: QuotaRows) -> None:
    volume = rows.put(tables.VOLUMES, size=1, status="extending")
    identifier = rows.reserve((GIGABYTES, 2, 10), booking=Booking(operations.EXTEND, volume))
    assert identifier is not None
    assert rows.book.commit(rows.engine.begin, [identifier]) == [identifier]
    assert rows.use()["gigabytes"] == (1, 2)
    rows.change(tables.VOLUMES, volume, size=3, status="available")
    assert rows.use()["gigabytes"] == (3, 0)
    assert rows.book.commit(rows.engine.begin, [identifier]) == []
    assert rows.reservations() == 0


def test_a_lost_retype_ends_without_the_other(rows: QuotaRows) -> None:
    volume = rows.put(tables.VOLUMES, size=1)
    booking = Booking(operations.RETYPE, volume)
    first = rows.reserve((VOLUMES_GOLD, 1, 10), booking=booking)
    second = rows.reserve((VOLUMES_GOLD, 1, 10), booking=booking)
    assert first is not None
    assert second is not None
    rows.change(tables.VOLUMES, volume, status="retyping")
    rows.book.roll_back(rows.engine.begin, [second])
    assert rows.use()["volumes_gold"] == (0, 1)
    assert rows.book.commit(rows.engine.begin, [first]) == [first]
    rows.change(tables.VOLUMES, volume, status="available", volume_type_id="t-gold")
    assert rows.book.commit(rows.engine.begin, [first]) == []
    assert rows.use()["volumes_gold"] == (1, 0)


def test_a_reservation_of_cinders_own_driver_is_committed(rows: QuotaRows) -> None:
    identifier = str(uuid.uuid4())
    with rows.engine.begin() as connection:
        connection.execute(
            sa.insert(tables.RESERVATIONS).values(
                uuid=identifier, project_id=PROJECT, resource="volumes", delta=1, created_at=LATE, deleted=False
            )
        )
    assert rows.book.commit(rows.engine.begin, [identifier]) == []
    assert rows.reservations() == 0


def test_ended_reservations_are_removed_with_the_next_one(rows: QuotaRows) -> None:
    rows.reserve((VOLUMES, 1, 1))
    rows.age(61)
    assert rows.reserve((VOLUMES, 1, 1)) is not None
    assert rows.reservations() == 1


def test_ended_reservations_are_removed_at_intervals(rows: QuotaRows) -> None:
    rows.reserve((VOLUMES, 1, -1), (GIGABYTES, 1, -1))
    rows.reserve((VOLUMES, 1, -1), project="q")
    volume = rows.put(tables.VOLUMES, size=1, status="extending")
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(operations.EXTEND, volume))
    rows.age(61)
    assert rows.book.remove_ended(rows.engine.begin) == 3
    assert rows.reservations() == 1
    assert rows.use() == {"volumes": (1, 0), "gigabytes": (1, 2)}


def test_a_row_ends_its_reservation_in_its_transaction(rows: QuotaRows) -> None:
    identifier = rows.reserve((VOLUMES, 1, 1))
    assert identifier is not None
    with rows.engine.begin() as connection:
        assert rows.book.end_with_row(connection, identifier)
        assert not rows.book.end_with_row(connection, identifier)
        connection.rollback()
    assert rows.use() == {"volumes": (0, 1)}


def test_a_row_that_comes_too_late_is_told(rows: QuotaRows) -> None:
    identifier = rows.reserve((VOLUMES, 1, 1))
    assert identifier is not None
    rows.age(31)
    with rows.engine.begin() as connection:
        assert not rows.book.end_with_row(connection, identifier)
        assert not rows.book.reduce_by_row(connection, identifier, {"volumes": 1})
    assert rows.use() == {"volumes": (0, 1)}


def test_a_row_reduces_a_reservation_for_several(rows: QuotaRows) -> None:
    identifier = rows.reserve((SNAPSHOTS, 3, 5), (GIGABYTES, 6, 10))
    assert identifier is not None
    with rows.engine.begin() as connection:
        assert rows.book.reduce_by_row(connection, identifier, {"snapshots": 1, "gigabytes": 4})
    assert rows.use() == {"snapshots": (0, 2), "gigabytes": (0, 2)}


def test_cinders_own_driver_would_count_anew(rows: QuotaRows) -> None:
    with rows.engine.begin() as connection:
        connection.execute(
            sa.insert(tables.USAGES).values(
                project_id=PROJECT, resource="volumes", in_use=77, reserved=5, race_preventer=True, deleted=False
            )
        )
    columns = [tables.USAGES.c[name] for name in ("resource", "until_refresh", "reserved")]
    for volumes in (1, 0, -1):
        rows.reserve((VOLUMES, 1, 5), (SNAPSHOTS, 1, 5))
        with rows.engine.connect() as connection:
            found = connection.execute(sa.select(*columns).order_by(columns[0])).all()
        assert [tuple(row) for row in found] == [("snapshots", volumes - 1, 0), ("volumes", volumes, 0)]


def test_a_row_without_a_limit_is_marked_once(rows: QuotaRows) -> None:
    with rows.engine.begin() as connection:
        connection.execute(
            sa.insert(tables.USAGES).values(
                project_id=PROJECT, resource="volumes", in_use=7, reserved=5, race_preventer=True, deleted=False
            )
        )
    for _ in range(3):
        rows.reserve((VOLUMES, 1, -1), (GIGABYTES, 1, -1))
        with rows.engine.connect() as connection:
            found = connection.execute(sa.select(tables.USAGES.c.until_refresh, tables.USAGES.c.reserved)).all()
        assert [tuple(row) for row in found] == [(1, 0), (1, 0)]


def test_a_row_of_another_case_is_the_same_resource(rows: QuotaRows) -> None:
    """Names of types compare without case on MariaDB; a row of an earlier type must not be made twice."""
    if rows.engine.dialect.name == "mysql":
        with rows.engine.begin() as connection:
            connection.execute(
                sa.insert(tables.USAGES).values(
                    project_id=PROJECT,
                    resource="volumes_GOLD",
                    in_use=0,
                    reserved=0,
                    race_preventer=True,
                    deleted=False,
                )
            )
    assert rows.reserve((VOLUMES_GOLD, 1, 1)) is not None


def test_held_reservations_name_operation_row_and_age(rows: QuotaRows) -> None:
    volume = rows.put(tables.VOLUMES, size=1, status="extending")
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(operations.EXTEND, volume))
    rows.age(20)
    rows.reserve((VOLUMES, 1, 10), project="q")
    with rows.engine.connect() as connection:
        extension, creation = quota_reservations.held(connection, rows.rules)
        [again] = quota_reservations.held(connection, rows.rules, "q")
    assert (again.project_id, again.booking) == (creation.project_id, creation.booking)
    assert (extension.project_id, extension.resource, extension.delta) == (PROJECT, "gigabytes", 2)
    assert extension.booking == Booking(operations.EXTEND, volume)
    assert extension.age == pytest.approx(20, abs=15)
    assert creation.booking == Booking(operations.CREATE_VOLUME)


def test_rows_that_vanish_are_made_again(rows: QuotaRows, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.reserve((VOLUMES, 1, 5))
    with rows.engine.begin() as connection:
        connection.execute(sa.delete(tables.RESERVATIONS))
        connection.execute(sa.delete(tables.USAGES))
    assert rows.reserve((VOLUMES, 1, 5)) is not None
    monkeypatch.setattr(quota_reservations, "_usages", lambda *args: {})
    with pytest.raises(errors.Unavailable, match="vanish"):
        rows.reserve((VOLUMES, 1, 5))


@pytest.mark.parametrize("database_url", ["postgresql", "mariadb"], indirect=True)
def test_clients_at_one_limit_get_exactly_the_limit(rows: QuotaRows) -> None:
    """Each client makes its row in the transaction that ends its reservation, as Cinder does."""

    def create(_: int) -> bool:
        try:
            identifier = rows.reserve((VOLUMES, 1, 20), (GIGABYTES, 2, 1000), (VOLUMES_GOLD, 1, 30))
        except LimitExceeded:
            return False
        assert identifier is not None
        with rows.engine.begin() as connection:
            row_id = str(uuid.uuid4())
            values = {"id": row_id, "project_id": PROJECT, "size": 2, "volume_type_id": "t-gold"}
            connection.execute(sa.insert(tables.VOLUMES).values(**values, use_quota=True, deleted=False))
            assert rows.book.end_with_row(connection, identifier)
        return True

    with concurrent.futures.ThreadPoolExecutor(12) as clients:
        made = list(clients.map(create, range(60)))
    assert sum(made) == 20
    assert rows.use() == {name: (20, 0) if name[0] == "v" else (40, 0) for name in
                          ("volumes", "volumes_gold", "gigabytes", "gigabytes_gold")}  # fmt: skip
    assert rows.reservations() == 0


@pytest.mark.parametrize("database_url", ["postgresql", "mariadb"], indirect=True)
def test_the_time_of_a_reservation_begins_after_the_wait_for_its_lock(rows: QuotaRows) -> None:
    """Else a service that waited for its lock would be taken for one that stopped."""
    rows.book.roll_back(rows.engine.begin, [rows.reserve((VOLUMES, 1, 5)) or ""])
    usages = sa.select(tables.USAGES.c.id).where(tables.USAGES.c.project_id == PROJECT).with_for_update()
    with concurrent.futures.ThreadPoolExecutor(1) as client:
        with rows.engine.begin() as connection:
            connection.execute(usages)
            waiting = client.submit(rows.reserve, (VOLUMES, 1, 5))
            time.sleep(2.5)
            unlocked_at = connection.scalar(sa.select(tables.clock(connection.dialect.name)))
        assert waiting.result() is not None
    with rows.engine.connect() as connection:
        assert connection.scalar(sa.select(tables.RESERVATIONS.c.created_at)) >= unlocked_at
