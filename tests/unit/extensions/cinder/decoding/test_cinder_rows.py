# SPDX-License-Identifier: Apache-2.0
"""Rows of Cinder's database."""

import datetime
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tonnage.capacity import errors
from tonnage.extensions.cinder.decoding.cinder_rows import CinderRows
from tonnage.ledger.db import database

#: The columns of Cinder 29.0.0 that are read, and some of the others.
_SCHEMA = """
CREATE TABLE volumes (id VARCHAR(36) PRIMARY KEY, created_at DATETIME, updated_at DATETIME, deleted_at DATETIME,
    deleted BOOLEAN, host VARCHAR(255), cluster_name VARCHAR(255), size INTEGER, status VARCHAR(255),
    migration_status VARCHAR(255), launched_at DATETIME, use_quota BOOLEAN, display_name VARCHAR(255));
CREATE TABLE services (id INTEGER PRIMARY KEY, created_at DATETIME, updated_at DATETIME, deleted BOOLEAN,
    host VARCHAR(255), "binary" VARCHAR(255), topic VARCHAR(255), disabled BOOLEAN, availability_zone VARCHAR(255),
    cluster_name VARCHAR(255), frozen BOOLEAN);
"""


class CinderDatabase:
    """A database of Cinder, and its rows as the shadow reads them."""

    def __init__(self, folder: pathlib.Path) -> None:
        url = f"sqlite:///{folder}/cinder.sqlite"
        self.engine = sa.create_engine(url)
        with self.engine.begin() as connection:
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.exec_driver_sql(statement)
        self.database = database.Database(database.create_engine(url), 2)
        self.rows = CinderRows(self.database)

    def put(self, table: str, **values: Any) -> None:
        """Add a row, or replace the one with that id."""
        values = {"deleted": False, "created_at": at(-3600)} | values
        with self.engine.begin() as connection:
            names = ", ".join(f'"{name}"' for name in values)
            marks = ", ".join(f":{name}" for name in values)
            connection.execute(sa.text(f"REPLACE INTO {table} ({names}) VALUES ({marks})"), values)

    def close(self) -> None:
        self.database.close()
        self.engine.dispose()


def at(seconds: float) -> str:
    """Return a time so many seconds from now, as SQLite keeps it."""
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    return (now + datetime.timedelta(seconds=seconds)).isoformat(" ")


@pytest.fixture
def cinder(tmp_path: pathlib.Path) -> Iterator[CinderDatabase]:
    found = CinderDatabase(tmp_path)
    yield found
    found.close()


def test_the_first_read_returns_all_live_volumes(cinder: CinderDatabase) -> None:
    cinder.put("volumes", id="v", host="h@b#a", size=3, status="available", launched_at=at(-3500), use_quota=True)
    cinder.put("volumes", id="c", host="h@b#a", cluster_name="c@b#a", size=2, status="creating", use_quota=False)
    cinder.put("volumes", id="gone", host="h@b#a", size=9, status="deleted", deleted=True)
    cinder.put("volumes", id="new", size=1, status="creating")
    changes = cinder.rows.read(complete=False)
    assert changes.complete
    found = {row.id: row for row in changes.live}
    assert found.keys() == {"v", "c", "new"}
    assert [found[name].pool for name in ("v", "c", "new")] == ["h@b#a", "c@b#a", None]
    assert [found[name].counted for name in ("v", "c", "new")] == [True, False, True]
    assert (found["v"].finished, found["c"].finished) == (True, False)
    assert found["v"].launched_at == pytest.approx(changes.read_at - 3500, abs=60)
    assert found["c"].changed_at == pytest.approx(changes.read_at - 3600, abs=60)


def test_a_later_read_returns_what_changed(cinder: CinderDatabase) -> None:
    cinder.put("volumes", id="old", host="h@b#a", size=3, status="available")
    cinder.put("volumes", id="v", host="h@b#a", size=3, status="available")
    cinder.rows.read(complete=False)
    cinder.put("volumes", id="v", host="h@b#a", size=3, status="deleted", deleted=True, deleted_at=at(0))
    cinder.put("volumes", id="w", host="h@b#a", size=4, status="available", updated_at=at(0))
    changes = cinder.rows.read(complete=False)
    assert not changes.complete
    assert ([row.id for row in changes.live], changes.gone) == (["w"], {"v"})
    changes = cinder.rows.read(complete=True)
    assert changes.complete
    assert {row.id for row in changes.live} == {"old", "w"}


def test_a_backend_has_the_newest_heartbeat_of_its_services(cinder: CinderDatabase) -> None:
    shared = {"binary": "cinder-volume", "availability_zone": "nova", "disabled": False, "frozen": False}
    cinder.put("services", id=1, host="h1@b", cluster_name="c@b", updated_at=at(-500), **shared)
    cinder.put("services", id=2, host="h2@b", cluster_name="c@b", updated_at=at(-5), **shared)
    cinder.put("services", id=3, host="h@x", **(shared | {"frozen": True}))
    cinder.put("services", id=4, host="h@gone", deleted=True, **shared)
    cinder.put("services", id=5, host="h", **(shared | {"binary": "cinder-scheduler"}))
    services = {service.backend: service for service in cinder.rows.read(complete=True).services}
    assert services.keys() == {"c@b", "h@x"}
    assert (services["c@b"].enabled, services["h@x"].enabled) == (True, False)
    assert services["c@b"].silent == pytest.approx(5, abs=60)
    assert services["c@b"].availability_zone == "nova"


def test_a_database_without_the_tables_is_named_in_one_line(tmp_path: pathlib.Path) -> None:
    empty = database.Database(database.create_engine(f"sqlite:///{tmp_path}/empty.sqlite"), 2)
    with pytest.raises(errors.Unavailable, match=r"volumes and services cannot be read: .*no such table: volumes"):
        CinderRows(empty).read(complete=True)
    empty.close()
