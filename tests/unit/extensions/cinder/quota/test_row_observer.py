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
    GIGABYTES,
    GIGABYTES_GOLD,
    PROJECT,
    SNAPSHOTS,
    VOLUMES,
    VOLUMES_GOLD,
    QuotaRows,
)
from tonnage.extensions.cinder.quota import quota_operations as operations
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota.quota_operations import Booking
from tonnage.extensions.cinder.quota.row_observer import RowObserver


class TooLate(Exception):
    """The error of these tests."""


class Scene:
    """Classes for volumes and snapshots, and the events of their rows."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.rows = QuotaRows(f"sqlite:///{folder / 'cinder.sqlite'}")
        self.snapshots_use_gigabytes = True
        self.observer = RowObserver(self.rows.book, lambda: self.snapshots_use_gigabytes, TooLate)
        registry = orm.registry()
        self.volume: Any = type("Volume", (), {})
        self.snapshot: Any = type("Snapshot", (), {})
        snapshots = tables.SNAPSHOTS.to_metadata(sa.MetaData())
        snapshots.append_column(sa.Column("volume_type_id", sa.String(36)))
        with self.rows.engine.begin() as connection:
            connection.execute(sa.DDL("ALTER TABLE snapshots ADD COLUMN volume_type_id VARCHAR(36)"))
        registry.map_imperatively(self.volume, tables.VOLUMES)
        registry.map_imperatively(self.snapshot, snapshots)
        self.observer.listen({"volumes": self.volume, "snapshots": self.snapshot})
        self._dispose = registry.dispose

    def expect(self, *amounts: tuple[Any, int], table: str = "volumes") -> str:
        """Reserve amounts, and expect their rows."""
        identifier = self.rows.reserve(*((resource, delta, 100) for resource, delta in amounts))
        assert identifier is not None
        self.observer.expect(identifier, table, PROJECT, dict(amounts))
        return identifier

    def make(self, kind: Any, **values: Any) -> None:
        """Make a row through its class."""
        row = kind()
        defaults = {"id": str(uuid.uuid4()), "project_id": PROJECT, "deleted": False, "use_quota": True}
        for name, value in (defaults | values).items():
            setattr(row, name, value)
        with orm.Session(self.rows.engine) as session, session.begin():
            session.add(row)

    def update(self, row_id: str, **values: Any) -> int:
        """Update volumes as Cinder does, and return the number of rows."""
        with orm.Session(self.rows.engine) as session, session.begin():
            return session.query(self.volume).filter_by(id=row_id).update(values)

    def close(self) -> None:
        sa.event.remove(orm.Session, "do_orm_execute", self.observer._after_update)
        self._dispose()
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
