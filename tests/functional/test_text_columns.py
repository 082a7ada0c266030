# SPDX-License-Identifier: Apache-2.0
"""Tables whose text columns another program has changed: the findings of checks, the work, and the way out."""

import contextlib
import functools
import json
import pathlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.deployment import CommandResult, run_program
from tests.servers import ledger_schema
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage import extension
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.ledger.db import database, schema, text_columns
from tonnage.ledger.locks import backend_notices
from tonnage.rpc.messages import Receipt

ZHE, EMOJI = "\N{CYRILLIC CAPITAL LETTER ZHE}", "\N{GRINNING FACE}"


@contextlib.contextmanager
def postgresql_with(server: PostgreSQL, encoding: str) -> Iterator[sa.Engine]:
    """A ledger in a PostgreSQL database with an encoding."""
    with server.database(f"TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'") as url:
        engine = database.create_engine(url)
        schema.sync(engine, extension.installed())
        yield engine
        engine.dispose()


@pytest.fixture(params=["mariadb", "postgresql"])
def limited(request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """A ledger whose tables take the characters of western Europe only."""
    server = request.getfixturevalue(f"{request.param}_server")
    if request.param == "postgresql":
        with postgresql_with(server, "LATIN1") as engine:
            yield engine
    else:
        with server.database() as url:
            yield ledger_schema.create_mariadb_with(url, "CHARACTER SET latin1")


def world_on(engine: sa.Engine) -> World:
    return World({"p": StoragePool(100, 2.0, thin=True, thick=False)}, engine=engine).started()


def test_an_outcome_ends_its_claim_whatever_its_text(limited: sa.Engine) -> None:
    world = world_on(limited)
    for text in (ZHE, EMOJI, f"{EMOJI} caf\u00e9", "a\0b\udcff", "x" * 100_000):
        world.create(5)
        world.deliver(replace(world.agent.work(fails=True, clean=True), message=text))
        [(reason,)] = world.rows("SELECT status_reason FROM volumes WHERE status = 'creating'")
        assert reason.isascii()
        assert world.rows("SELECT COUNT(*) FROM claims WHERE state = 'pending'") == [(0,)]
        world.settle()  # no other pool is left
        assert world.rows("SELECT DISTINCT status FROM volumes") == [("error",)]
    world.check()


def test_an_outcome_keeps_a_text_that_the_table_takes(limited: sa.Engine) -> None:
    world = world_on(limited)
    world.create(5)
    world.deliver(replace(world.agent.work(fails=True, clean=True), message="caf\u00e9"))
    assert world.rows("SELECT status_reason FROM volumes") == [(f"{BACKEND}#p: caf\u00e9",)]


def test_a_name_that_a_table_does_not_take_is_invalid_input(limited: sa.Engine) -> None:
    world = world_on(limited)
    messages = [replace(world.create_message(5), name=name) for name in (ZHE, "caf\u00e9")]
    refused, accepted = world.place(list(messages))
    assert isinstance(refused, errors.InvalidInput)
    assert refused.message.startswith(r"name is '\u0416': a table of the ledger does not take this text;")
    assert not isinstance(accepted, Exception)
    assert world.database.refusal is None
    assert world.rows("SELECT name FROM volumes") == [("caf\u00e9",)]


def test_a_notice_and_a_listing_are_recorded_with_any_text(limited: sa.Engine) -> None:
    world = world_on(limited)
    record = functools.partial(backend_notices.record, epoch=world.agent.epoch, seq=2**40, code="failing", text=ZHE)
    world.database.run(record, BACKEND)
    assert world.rows("SELECT notice_text FROM backends") == [(r"\u0416",)]
    world.pools["p"].volumes[ZHE] = (3, Provisioning.THIN)
    for _ in range(2):
        [receipt] = world.registration.listings([world.agent.listing()])
        assert receipt == Receipt(accepted=True)
        assert world.rows("SELECT volume_id, category FROM discrepancies") == [(r"'\u0416'", "orphan")]


def test_a_report_with_a_pool_that_the_table_does_not_take_says_so(
    limited: sa.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_on(limited)
    world.pools[ZHE] = StoragePool(100, 2.0, thin=True, thick=False)
    [error] = world.report_handler.reports([world.agent.look()])
    assert isinstance(error, errors.InvalidInput)
    [record] = [record for record in caplog.records if record.name.endswith("report_handler")]
    assert rf"name is '{BACKEND}#\u0416': a table of the ledger does not take this text" in record.getMessage()
    assert not record.exc_info


@pytest.fixture(params=["CHARACTER SET utf8mb3", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "CHARACTER SET latin1"])
def changed_mariadb(request: pytest.FixtureRequest, mariadb_server: MariaDB) -> Iterator[sa.Engine]:
    with mariadb_server.database() as url:
        yield ledger_schema.create_mariadb_with(url, request.param)


def command(engine: sa.Engine, folder: pathlib.Path, *words: str) -> CommandResult:
    """Run a program with a ledger in a configuration file, in a process that has been forked."""
    conf = folder / "tonnage.conf"
    conf.write_text(f"[database]\nconnection = {engine.url.render_as_string(hide_password=False)}\n")
    return run_program(words[0], "--config-file", conf, *words[1:])


def verdict(engine: sa.Engine, folder: pathlib.Path) -> dict[str, Any]:
    """Return the result of the upgrade check about text columns."""
    told = json.loads(command(engine, folder, "tonnage-status", "upgrade", "check", "--json").output)["checks"]
    [check] = [check for check in told if check["check"] == "Text columns of the database"]
    return dict(check)


def copied(engine: sa.Engine, url: str, tmp_path: pathlib.Path) -> sa.Engine:
    """Copy the ledger to the empty database at a URL, check its columns and its only volume, and return its engine."""
    ended = command(engine, tmp_path, "tonnage-manage", "db", "copy", "--to", url)
    assert ended.code == 0, ended.output + ended.error
    copy = database.create_engine(url)
    assert verdict(copy, tmp_path)["result"] == 0
    with copy.connect() as connection:
        assert connection.scalars(sa.text("SELECT name FROM volumes")).all() == ["caf\u00e9"]
    return copy


@pytest.mark.heavy
def test_wrong_columns_of_mariadb_are_named_and_the_way_out_works(
    changed_mariadb: sa.Engine, mariadb_server: MariaDB, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_on(changed_mariadb)
    world.place([replace(world.create_message(3), name="caf\u00e9")])
    world.settle()
    check = verdict(changed_mariadb, tmp_path)
    assert check["result"] == 2
    assert "announcements.body has" in check["details"] or "backends.name has" in check["details"]
    assert "and must have utf8mb4 utf8mb4_nopad_bin" in check["details"]
    assert f": {text_columns.WAY_OUT}" in check["details"]
    text_columns.warn(world.database, extension.installed())
    assert "The tables of the ledger are wrong, texts may be refused or confused: " in caplog.text
    with mariadb_server.database() as url:
        engine = copied(changed_mariadb, url, tmp_path)
        ended = command(engine, tmp_path, "tonnage-manage", "ledger", "check", "--strict")
        assert ended.code == 0, ended.output + ended.error
        engine.dispose()


@pytest.mark.heavy
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_wrong_encoding_of_postgresql_is_named_and_the_way_out_works(
    postgresql_server: PostgreSQL, tmp_path: pathlib.Path, encoding: str
) -> None:
    with postgresql_with(postgresql_server, encoding) as engine, postgresql_server.database() as url:
        world = world_on(engine)
        world.place([replace(world.create_message(3), name="caf\u00e9")])
        world.settle()
        check = verdict(engine, tmp_path)
        assert check["result"] == 2
        assert f"the database has encoding {encoding} and must have UTF8: {text_columns.WAY_OUT}" in check["details"]
        copied(engine, url, tmp_path).dispose()


def test_a_ledger_is_not_copied_to_a_database_that_refuses_texts(
    postgresql_server: PostgreSQL, tmp_path: pathlib.Path
) -> None:
    source = database.create_engine(f"sqlite:///{tmp_path / 'tonnage.sqlite'}")
    world_on(source)
    with postgresql_server.database("TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'") as url:
        ended = command(source, tmp_path, "tonnage-manage", "db", "copy", "--to", url)
    assert ended.code == 1
    told = "--to names a database that is wrong, as the database has encoding LATIN1 and must have UTF8"
    assert told in ended.error
    source.dispose()


def test_the_charset_of_a_url_does_not_limit_the_texts(mariadb_server: MariaDB) -> None:
    with mariadb_server.database() as url:
        engine = database.create_engine(sa.make_url(url).update_query_dict({"charset": "utf8"}))
        world = world_on(engine)
        world.place([replace(world.create_message(3), name=EMOJI)])
        assert world.rows("SELECT name FROM volumes") == [(EMOJI,)]
        engine.dispose()
