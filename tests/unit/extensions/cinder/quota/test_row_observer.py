# SPDX-License-Identifier: Apache-2.0
"""Reservations end in the transactions in which a mapped class gets its rows."""

import pathlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tests.unit.extensions.cinder.quota.quota_rows import (
    BACKUPS,
    GIGABYTES,
    GIGABYTES_GOLD,
    LATE,
    PROJECT,
    SNAPSHOTS,
    VOLUMES,
    VOLUMES_GOLD,
    QuotaRows,
)
from tonnage.extensions.cinder.quota import quota_operations as operations
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota import reservation_ends
from tonnage.extensions.cinder.quota.quota_operations import Booking
from tonnage.extensions.cinder.quota.quota_reservations import Amount, LimitExceeded, Reservation
from tonnage.extensions.cinder.quota.row_observer import Change, RowObserver


class TooLate(Exception):
    """The error of these tests."""


class Scene:
    """Classes for volumes and snapshots, and the events of their rows."""

    def __init__(self, folder: pathlib.Path) -> None:
        url = f"sqlite:///{folder / 'cinder.sqlite'}"
        self.rows = QuotaRows(url)
        self.engine = sa.create_engine(url)
        self.snapshots_use_gigabytes = True
        self.observer = RowObserver(self.rows.book, lambda: self.snapshots_use_gigabytes, TooLate)
        registry = orm.registry()
        self.volume: Any = type("Volume", (), {})
        self.snapshot: Any = type("Snapshot", (), {})
        self.backup: Any = type("Backup", (), {})
        snapshots = tables.SNAPSHOTS.to_metadata(sa.MetaData())
        snapshots.append_column(sa.Column("volume_type_id", sa.String(36)))
        with self.rows.engine.begin() as connection:
            connection.execute(sa.DDL("ALTER TABLE snapshots ADD COLUMN volume_type_id VARCHAR(36)"))
        registry.map_imperatively(self.volume, tables.VOLUMES)
        registry.map_imperatively(self.snapshot, snapshots)
        registry.map_imperatively(self.backup, tables.BACKUPS)
        self.observer.listen({"volumes": self.volume, "snapshots": self.snapshot, "backups": self.backup})
        self._dispose = registry.dispose

    def expect(self, *amounts: tuple[Any, int], table: str = "volumes") -> str:
        """Reserve amounts, and expect their rows."""
        identifier = self.rows.reserve(*((resource, delta, 100) for resource, delta in amounts))
        assert identifier is not None
        self.observer.expect(identifier, table, PROJECT, dict(amounts))
        return identifier

    def begins(self, booking: Booking, project: str, *amounts: tuple[Any, int, int], request_id: str = "first") -> None:
        """Reserve amounts, and expect the change of the row with which the operation begins."""
        identifier = self.rows.reserve(*amounts, booking=booking, project=project)
        value = reservation_ends.first_value(booking.operation, project)
        assert identifier is not None
        assert value is not None
        assert booking.row_id is not None
        reservation = Reservation(
            identifier=identifier,
            project_id=project,
            amounts=[Amount(*amount) for amount in amounts],
            booking=booking,
            expire=LATE,
        )
        self.observer.expect_begin(
            Change(
                identifier=identifier,
                row_id=booking.row_id,
                value=value,
                request_id=request_id,
                renew=lambda begin: self.rows.book.renew(begin, reservation),
            )
        )

    def make(self, kind: Any, **values: Any) -> None:
        """Make a row through its class."""
        row = kind()
        defaults = {"id": str(uuid.uuid4()), "project_id": PROJECT, "deleted": False, "use_quota": True}
        for name, value in (defaults | values).items():
            setattr(row, name, value)
        # A transaction of Tonnage's own engine would keep others from writing from its begin.
        engine = self.engine if kind is self.backup else self.rows.engine
        with orm.Session(engine) as session, session.begin():
            session.add(row)

    def update(self, row_id: str, **values: Any) -> int:
        """Update volumes as Cinder does, and return the number of rows."""
        with orm.Session(self.rows.engine) as session, session.begin():
            return session.query(self.volume).filter_by(id=row_id).update(values)

    def close(self) -> None:
        sa.event.remove(orm.Session, "do_orm_execute", self.observer._around_update)
        self._dispose()
        self.engine.dispose()
        self.rows.close()


@pytest.fixture
def scene(tmp_path: pathlib.Path) -> Iterator[Scene]:
    found = Scene(tmp_path)
    yield found
    found.close()


def test_a_row_ends_its_reservation(scene: Scene) -> None:
    identifier = scene.expect((VOLUMES, 1), (GIGABYTES, 2))
    scene.make(scene.volume, size=2)
    assert scene.rows.use() == {"volumes": (1, 0), "gigabytes": (2, 0)}
    assert scene.rows.reservations() == 0
    assert scene.observer.end([identifier]) == []


@pytest.mark.parametrize("values", [{"use_quota": False}, {"project_id": "q"}])
def test_another_row_does_not_end_it(values: dict[str, Any], scene: Scene) -> None:
    identifier = scene.expect((VOLUMES, 1))
    scene.make(scene.volume, size=2, **values)
    scene.make(scene.snapshot, volume_size=2, volume_id="v")
    assert scene.rows.use()["volumes"] == (0, 1)
    assert scene.observer.end([identifier]) == [identifier]


def test_a_row_of_another_thread_does_not_end_it(scene: Scene) -> None:
    identifier = scene.expect((VOLUMES, 1))
    other = threading.Thread(target=scene.make, args=(scene.volume,), kwargs={"size": 2})
    other.start()
    other.join()
    assert scene.rows.use()["volumes"] == (1, 1)
    assert scene.observer.end([identifier]) == [identifier]


def test_a_row_that_fails_does_not_end_it(scene: Scene) -> None:
    scene.expect((VOLUMES, 1))
    row_id = scene.rows.put(tables.VOLUMES, size=1)
    with pytest.raises(db_exc.DBDuplicateEntry):
        scene.make(scene.volume, size=2, id=row_id)
    assert scene.rows.use()["volumes"] == (1, 1)
    scene.make(scene.volume, size=2)
    assert scene.rows.use()["volumes"] == (2, 0)


def test_a_row_that_comes_too_late_fails(scene: Scene) -> None:
    scene.expect((VOLUMES, 1))
    scene.rows.age(31)
    with pytest.raises(TooLate):
        scene.make(scene.volume, size=2)
    assert scene.rows.use() == {"volumes": (0, 1)}


def test_a_reservation_that_ended_expects_no_row(scene: Scene) -> None:
    identifier = scene.expect((VOLUMES, 1))
    scene.rows.book.roll_back(scene.rows.engine.begin, scene.observer.end([identifier]))
    scene.make(scene.volume, size=2)
    assert scene.rows.use()["volumes"] == (1, 0)


def test_a_request_that_failed_leaves_no_expectation(scene: Scene) -> None:
    scene.expect((VOLUMES, 1))
    scene.rows.age(61)
    scene.expect((VOLUMES, 1))
    scene.make(scene.volume, size=2)
    assert scene.rows.use()["volumes"] == (1, 0)


def test_several_rows_end_a_reservation_part_by_part(scene: Scene) -> None:
    gold = scene.rows.put(tables.VOLUMES, size=4, volume_type_id="t-gold")
    identifier = scene.expect((SNAPSHOTS, 2), (GIGABYTES, 6), (VOLUMES_GOLD, 1), (GIGABYTES_GOLD, 4), table="snapshots")
    scene.make(scene.snapshot, volume_id=gold, volume_size=4, volume_type_id="t-gold")
    assert scene.rows.use()["snapshots"] == (1, 1)
    assert scene.rows.use()["gigabytes"] == (8, 2)
    assert scene.rows.use()["gigabytes_gold"] == (8, 0)
    scene.make(scene.snapshot, volume_id="other", volume_size=2, volume_type_id="t-other")
    assert scene.rows.use()["snapshots"] == (2, 0)
    assert scene.rows.use()["gigabytes"] == (10, 0)
    assert scene.observer.end([identifier]) == [identifier]


def test_snapshots_without_gigabytes_reduce_none(scene: Scene) -> None:
    scene.snapshots_use_gigabytes = False
    scene.expect((SNAPSHOTS, 2), table="snapshots")
    scene.make(scene.snapshot, volume_id="v", volume_size=4)
    assert scene.rows.use()["snapshots"] == (1, 1)


def test_a_change_of_a_row_removes_the_committed_reservation(scene: Scene) -> None:
    volume = scene.rows.put(tables.VOLUMES, size=1, status="extending")
    identifier = scene.rows.reserve((GIGABYTES, 2, 10), booking=Booking(operations.EXTEND, volume))
    assert identifier is not None
    scene.observer.expect_change(scene.rows.book.commit(scene.rows.engine.begin, [identifier]))
    assert scene.update(volume, size=1) == 1
    assert scene.rows.use()["gigabytes"] == (1, 2)
    assert scene.update(volume, size=3, status="available") == 1
    assert scene.rows.reservations() == 0
    assert scene.update(volume, size=4) == 1
    assert scene.rows.use()["gigabytes"] == (4, 0)


OWNER = "owner"


def accept(scene: Scene, limit: int = 2) -> str:
    """Reserve for a volume of 1 GiB that another project gives away, and return the volume."""
    volume = scene.rows.put(tables.VOLUMES, size=1, status="awaiting-transfer", project_id=OWNER)
    scene.begins(Booking(operations.TRANSFER, volume), PROJECT, (VOLUMES, 1, limit))
    return volume


def test_a_change_in_time_is_made_with_its_reservation(scene: Scene) -> None:
    volume = accept(scene)
    assert scene.update(volume, project_id=PROJECT, status="available") == 1
    assert scene.rows.use()["volumes"] == (1, 0)


@pytest.mark.parametrize("is_removed", [False, True], ids=["old", "removed"])
def test_a_change_that_comes_late_is_made_if_it_fits(is_removed: bool, scene: Scene) -> None:
    volume = accept(scene)
    scene.rows.age(61)
    if is_removed:
        assert scene.rows.book.remove_ended(scene.rows.engine.begin) == 1
    scene.rows.put(tables.VOLUMES, size=1)
    assert scene.update(volume, project_id=PROJECT, status="available") == 1
    assert scene.rows.use()["volumes"] == (2, 0)
    assert scene.rows.reservations() == 1


def test_a_change_that_comes_late_fails_if_it_would_exceed_a_limit(scene: Scene) -> None:
    volume = accept(scene)
    scene.rows.age(61)
    for _ in range(2):
        scene.rows.put(tables.VOLUMES, size=1)
    with pytest.raises(LimitExceeded):
        scene.update(volume, project_id=PROJECT, status="available")
    assert scene.rows.use() == {"volumes": (2, 0), "gigabytes": (2, 0)}
    assert scene.rows.use(OWNER)["volumes"] == (1, 0)


def test_a_change_renews_all_reservations_of_its_request(scene: Scene) -> None:
    """A transfer reserves for the volume and for its snapshots."""
    volume = accept(scene)
    scene.begins(Booking(operations.TRANSFER, volume), PROJECT, (SNAPSHOTS, 1, 1))
    scene.rows.age(61)
    scene.rows.put(tables.SNAPSHOTS, volume_size=1)
    with pytest.raises(LimitExceeded) as refusal:
        scene.update(volume, project_id=PROJECT, status="available")
    assert refusal.value.names == ["snapshots"]


def test_a_renewed_reservation_counts_once(scene: Scene) -> None:
    volume = accept(scene, limit=1)
    scene.rows.age(31)
    assert scene.update(volume, project_id=PROJECT, status="available") == 1


def test_other_changes_renew_nothing(scene: Scene) -> None:
    volume, other = accept(scene), scene.rows.put(tables.VOLUMES, size=1)
    scene.rows.age(61)
    scene.update(volume, size=2)
    scene.update(other, project_id=PROJECT)
    assert scene.rows.use()["volumes"] == (1, 0)


def test_a_change_of_a_request_that_failed_is_not_expected(scene: Scene) -> None:
    volume = accept(scene, limit=1)
    scene.begins(Booking(operations.TRANSFER, str(uuid.uuid4())), PROJECT, (GIGABYTES, 1, 1), request_id="second")
    scene.rows.age(61)
    scene.rows.put(tables.VOLUMES, size=1)
    assert scene.update(volume, project_id=PROJECT) == 1


def test_a_change_of_a_reservation_that_was_rolled_back_is_not_expected(scene: Scene) -> None:
    volume = accept(scene, limit=1)
    [change] = scene.observer._thread.coming
    scene.observer.end([change.identifier])
    scene.rows.age(61)
    scene.rows.put(tables.VOLUMES, size=1)
    assert scene.update(volume, project_id=PROJECT) == 1


def test_a_retype_that_begins_late_fails_if_it_would_exceed_a_limit(scene: Scene) -> None:
    volume = scene.rows.put(tables.VOLUMES, size=1, volume_type_id="t-silver")
    scene.begins(Booking(operations.RETYPE, volume), PROJECT, (VOLUMES_GOLD, 1, 1), (GIGABYTES_GOLD, 1, 9))
    scene.rows.age(61)
    scene.rows.put(tables.VOLUMES, size=1, volume_type_id="t-gold")
    with pytest.raises(LimitExceeded):
        scene.update(volume, status="retyping")


def test_a_backup_that_is_imported_late_fails_if_it_would_exceed_a_limit(scene: Scene) -> None:
    backup = str(uuid.uuid4())
    scene.begins(Booking(operations.IMPORT_BACKUP, backup), PROJECT, (BACKUPS, 1, 1))
    scene.rows.age(61)
    scene.rows.put(tables.BACKUPS, size=1)
    with pytest.raises(LimitExceeded):
        scene.make(scene.backup, id=backup, status="creating")
    assert scene.rows.use()["backups"] == (1, 0)


def test_a_backup_that_is_imported_late_is_made_if_it_fits(scene: Scene) -> None:
    backup = str(uuid.uuid4())
    scene.begins(Booking(operations.IMPORT_BACKUP, backup), PROJECT, (BACKUPS, 1, 1))
    scene.rows.age(61)
    scene.make(scene.backup, id=backup, status="creating")
    assert scene.rows.use()["backups"] == (1, 1)
    scene.rows.change(tables.BACKUPS, backup, status="available")
    assert scene.rows.use()["backups"] == (1, 0)
