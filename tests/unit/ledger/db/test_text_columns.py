# SPDX-License-Identifier: Apache-2.0
"""Text columns of real databases, compared with the models. The way out is in the functional tests."""

import pathlib

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL
from tonnage import extension
from tonnage.ledger.db import database, text_columns


def test_each_wrong_column_of_the_core_and_of_extensions_is_named(mariadb_server: MariaDB) -> None:
    with mariadb_server.database() as url:
        engine = database.create_engine(url)
        ledger_schema.create(engine)
        with engine.connect() as connection:
            assert text_columns.find_faults(connection, extension.installed()) == []
            connection.execute(sa.text("ALTER TABLE csi_drivers MODIFY name VARCHAR(63) CHARACTER SET utf8mb3"))
            connection.execute(sa.text("ALTER TABLE backends MODIFY notice_text TEXT CHARACTER SET utf8mb3"))
            connection.execute(sa.text("ALTER TABLE pools MODIFY stats LONGTEXT CHARACTER SET latin1 NOT NULL"))
            faults = text_columns.find_faults(connection, extension.installed())
        assert "backends.notice_text has utf8mb3 utf8mb3_general_ci and must have utf8mb4 utf8mb4_nopad_bin" in faults
        assert "pools.stats has latin1 and must have utf8mb4" in faults
        assert "csi_drivers.name has utf8mb3 utf8mb3_general_ci and must have utf8mb4 utf8mb4_nopad_bin" in faults
        assert len(faults) == 3
        engine.dispose()


def test_a_nondeterministic_collation_of_postgresql_is_named(
    postgresql_server: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    with postgresql_server.database() as url:
        engine = database.create_engine(url)
        ledger_schema.create(engine)
        ledger = database.Database(engine)
        text_columns.warn(ledger, {})
        assert not caplog.records
        with engine.begin() as connection:
            for statement in (
                "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
                "ALTER TABLE volume_types ALTER name TYPE varchar(255) COLLATE any_case",
            ):
                connection.execute(sa.text(statement))
        text_columns.warn(ledger, {})
        ledger.close()
    fault = "volume_types.name has the nondeterministic collation any_case and must have a deterministic one"
    assert f"texts may be refused or confused: {fault}: {text_columns.WAY_OUT}" in caplog.text


def test_sqlite_has_no_such_columns(tmp_path: pathlib.Path) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'x'}")
    with engine.connect() as connection:
        assert text_columns.find_faults(connection, extension.installed()) == []
    engine.dispose()


def test_only_some_of_many_columns_are_named() -> None:
    message = text_columns.describe([f"t.c{number} is wrong" for number in range(12)])
    assert "t.c9 is wrong; and 2 more: stop all schedulers" in message
    assert "t.c10" not in message
