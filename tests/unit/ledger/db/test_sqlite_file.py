# SPDX-License-Identifier: Apache-2.0
"""The file of an SQLite database, and files that vanish while they are open."""

import contextlib
import os
import pathlib
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger.db import database, sqlite_file
from tonnage.ledger.db import options as database_options


def configured(url: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    database_options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    conf.set_override("connection", url, group="database")
    return conf


def test_a_missing_file_is_made_only_on_demand(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = configured("sqlite:///./var/tonnage.sqlite")
    with pytest.raises(sqlite_file.NoDatabase) as caught:
        database.connect(relative)
    assert caught.value.message == (
        f"there is no database ./var/tonnage.sqlite in {tmp_path}, where this was started (option [database] "
        "connection); if the option is right and this is the right place, run 'tonnage-manage db sync', which makes it"
    )
    with pytest.raises(sqlite_file.NoDatabase, match=rf"^there is no database {tmp_path}/x \(option"):
        database.connect(configured(f"sqlite:///{tmp_path}/x"))
    assert os.listdir() == []
    made = database.connect(relative, create=True)
    with made.reading():
        assert {name: os.stat(f"var/{name}").st_mode & 0o777 for name in os.listdir("var")} == dict.fromkeys(
            os.listdir("var"), 0o600
        )
        assert os.stat("var").st_mode & 0o777 == 0o700
    made.close()
    database.connect(relative).close()


def test_urls_without_a_file_name_no_sqlite_file() -> None:
    for url in ("sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=true", "postgresql+psycopg://host/name"):
        assert sqlite_file.path_of(sa.make_url(url)) is None


def add(session: orm.Session) -> None:
    session.execute(sa.text("INSERT INTO entries VALUES (1)"))


def count(ledger: database.Database) -> int:
    with ledger.reading() as session:
        return int(session.scalar(sa.text("SELECT COUNT(*) FROM entries")) or 0)


def open_ledger(file: pathlib.Path) -> database.Database:
    engine = database.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE entries (id INT)"))
    return database.Database(engine, patience=database.Patience(quiet=0.0))


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    ledger.run(add)
    yield ledger
    ledger.close()


def remove(file: pathlib.Path) -> None:
    file.rename(file.with_name("elsewhere"))


def replace_empty(file: pathlib.Path) -> None:
    remove(file)
    file.touch()


def replace_by_another_ledger(file: pathlib.Path) -> None:
    remove(file)
    open_ledger(file.with_name("other.sqlite")).close()
    file.with_name("other.sqlite").rename(file)


@pytest.mark.parametrize("name", ["ledger.sqlite", "ledger.sqlite-wal"])
@pytest.mark.parametrize("act", [remove, replace_empty, replace_by_another_ledger])
@pytest.mark.parametrize("pooled", [True, False])
def test_a_file_that_is_lost_while_it_is_open_takes_no_writes(
    tmp_path: pathlib.Path,
    ledger: database.Database,
    name: str,
    act: Callable[[pathlib.Path], None],
    pooled: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A write would be lost with the process, and a new connection would begin another ledger."""
    file = tmp_path / name
    reader = ledger.engine.connect()  # so that the log stays, and that further connections are new ones
    if pooled:
        reader.close()
    act(file)
    for _ in range(2):
        with pytest.raises(errors.DatabaseUnreachable, match=rf"^the ledger cannot be written: {file} was re"):
            ledger.run(add)
        with pytest.raises(errors.DatabaseUnreachable, match=r"while it was open: bring the original file back"):
            count(ledger)
    assert ledger.refusal is not None
    file.with_name("elsewhere").replace(file)
    ledger.run(add)
    assert (count(ledger), ledger.refusal) == (2, None)
    assert [record.levelname for record in caplog.records if record.levelno > 20] == ["ERROR"]
    reader.close()


def test_no_database_is_made_beside_the_log_of_one_that_was_moved_away(
    tmp_path: pathlib.Path, ledger: database.Database
) -> None:
    """SQLite deletes the log of another database when it makes a new one, and with it all that the log alone has."""
    file, log = tmp_path / "ledger.sqlite", tmp_path / "ledger.sqlite-wal"
    reader = ledger.engine.connect()
    file.rename(tmp_path / "elsewhere")
    size = log.stat().st_size
    for create in (False, True):
        with pytest.raises(sqlite_file.LeftLog, match=rf"{log} with {size} bytes of its last transactions: bring the"):
            database.connect(configured(f"sqlite:///{file}"), create=create)
    assert (log.stat().st_size, file.exists()) == (size, False)
    (tmp_path / "elsewhere").rename(file)
    reader.close()
    assert count(ledger) == 1
    other = database.connect(configured(f"sqlite:///{file}"), create=True)
    assert count(other) == 1
    other.close()


@pytest.mark.parametrize("names", [["ledger.sqlite"], ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"]])
def test_a_deleted_database_can_be_saved_from_the_process_that_has_it_open(
    tmp_path: pathlib.Path, ledger: database.Database, names: list[str]
) -> None:
    """The documented steps for a deleted SQLite file."""
    for name in names:
        (tmp_path / name).unlink()
    with pytest.raises(errors.DatabaseUnreachable, match=rf"process {os.getpid()} has the last copy open"):
        ledger.run(add)
    saved = tmp_path / "saved"
    saved.mkdir()
    descriptors = [pathlib.Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    for descriptor in filter(os.path.exists, descriptors):
        target = pathlib.Path(os.readlink(descriptor).removesuffix(" (deleted)"))
        if target.parent == tmp_path and target.suffix != ".sqlite-shm":
            (saved / target.name).write_bytes(descriptor.read_bytes())
    assert sorted(os.listdir(saved)) == ["ledger.sqlite", "ledger.sqlite-wal"]
    copy = database.Database(database.create_engine(f"sqlite:///{saved}/ledger.sqlite"))
    assert count(copy) == 1
    copy.close()


def test_the_log_of_sqlite_may_vanish_with_the_last_connection(
    tmp_path: pathlib.Path, ledger: database.Database
) -> None:
    for number in range(2, 4):
        ledger.engine.dispose()
        assert os.listdir(tmp_path) == ["ledger.sqlite"]
        (tmp_path / "ledger.sqlite-wal").touch()  # another file by this name until then
        (tmp_path / "ledger.sqlite-wal").unlink()
        ledger.run(add)
        assert count(ledger) == number


def write_much(ledger: database.Database) -> None:
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE filler (content BLOB)"))
        connection.execute(sa.text("INSERT INTO filler VALUES (randomblob(2000000))"))


def test_a_large_log_is_emptied_and_the_file_has_all_commits(tmp_path: pathlib.Path, ledger: database.Database) -> None:
    log, copy = tmp_path / "ledger.sqlite-wal", tmp_path / "copy.sqlite"
    size = log.stat().st_size
    ledger.empty_log()
    assert log.stat().st_size == size > 0  # not worth the work
    write_much(ledger)
    ledger.empty_log()
    assert log.stat().st_size == 0
    shutil.copy(tmp_path / "ledger.sqlite", copy)
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT length(content) FROM filler").fetchall() == [(2_000_000,)]
    ledger.run(add)


def test_a_log_that_is_in_use_stays_and_nobody_waits(tmp_path: pathlib.Path, ledger: database.Database) -> None:
    log = tmp_path / "ledger.sqlite-wal"
    with ledger.reading() as session:
        session.execute(sa.text("SELECT COUNT(*) FROM entries")).all()
        write_much(ledger)
        began = time.monotonic()
        ledger.empty_log()
        assert time.monotonic() - began < database.PATIENCE.connect
        assert log.stat().st_size > 2_000_000
    ledger.run(add)
    ledger.empty_log()
    assert log.stat().st_size == 0
    with ledger.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() > 0


def test_the_log_of_a_file_that_is_gone_is_left_to_the_next_transaction(
    tmp_path: pathlib.Path, ledger: database.Database
) -> None:
    write_much(ledger)
    remove(tmp_path / "ledger.sqlite")
    ledger.empty_log()
    with pytest.raises(errors.DatabaseUnreachable, match="was removed"):
        ledger.run(add)
