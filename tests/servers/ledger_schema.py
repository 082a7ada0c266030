# SPDX-License-Identifier: Apache-2.0
"""The ledger's schema for empty databases of tests.

The migrations run once for each server. Other databases get a copy of the result, which takes a tenth of the time.
"""

import functools
import sqlite3

import sqlalchemy as sa

from tests.servers.database import DatabaseServer
from tests.servers.postgresql import PostgreSQL
from tonnage import extension
from tonnage.ledger import models
from tonnage.ledger.db import database, schema

_TEMPLATE = "tonnage_template"

#: The end of the definitions of MariaDB's text columns.
_TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"


def metadata() -> sa.MetaData:
    """Return the metadata with the tables of the core and of all installed extensions."""
    for declaration in extension.installed().values():
        if declaration.tables:
            extension.load(declaration.tables)
    return models.Base.metadata


def create(engine: sa.Engine) -> None:
    """Give an empty database the tables of the core and of all installed extensions. Another one stays as it is."""
    if not schema.current(engine):
        {"sqlite": _copy_sqlite, "postgresql": _copy_postgresql, "mysql": _copy_mariadb}[engine.dialect.name](engine)


def options_with_tables(server: DatabaseServer) -> str | None:
    """Return the options of :meth:`DatabaseServer.database` for a database that :func:`create` does not have to fill.

    PostgreSQL copies a database with these tables as fast as an empty one. Others begin empty.
    """
    if not isinstance(server, PostgreSQL):
        return None
    _template(sa.make_url(server.url))
    return f"TEMPLATE {_TEMPLATE} {server.create_options}"


@functools.cache
def _sqlite() -> sqlite3.Connection:
    engine = database.create_engine("sqlite://")
    schema.sync(engine, extension.installed())
    template = sqlite3.connect(":memory:", check_same_thread=False)
    connection = engine.raw_connection()
    _driver_connection(connection).backup(template)
    connection.close()
    engine.dispose()
    return template


def _driver_connection(connection: sa.PoolProxiedConnection) -> sqlite3.Connection:
    found = connection.driver_connection
    assert isinstance(found, sqlite3.Connection)
    return found


def _copy_sqlite(engine: sa.Engine) -> None:
    connection = engine.raw_connection()
    try:
        _sqlite().backup(_driver_connection(connection))
    finally:
        connection.close()


def _administrator(server: sa.URL) -> sa.Engine:
    # Of a cluster only one server takes changes.
    arguments = {"target_session_attrs": "read-write"} if server.get_backend_name() == "postgresql" else {}
    return sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool, connect_args=arguments)


@functools.cache
def _template(server: sa.URL) -> sa.URL:
    """Return the address of a database of a server in which the migrations have run."""
    with _administrator(server).connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {_TEMPLATE}")
    url = server.set(database=_TEMPLATE)
    engine = database.create_engine(url.render_as_string(hide_password=False))
    schema.sync(engine, extension.installed())
    engine.dispose()
    return url


def _copy_postgresql(engine: sa.Engine) -> None:
    server, name = engine.url.set(database="postgres"), engine.url.database
    _template(server)
    engine.dispose()
    with _administrator(server).connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE} STRATEGY FILE_COPY")


def create_mariadb_with(url: str, charset: str) -> sa.Engine:
    """Give an empty MariaDB the tables with other text columns, as a converted dump has; return its engine.

    ``charset`` is the end of the definitions of text columns.
    """
    engine = database.create_engine(url)
    with _administrator(engine.url).connect() as connection:
        for statement in _mariadb_statements(_template(engine.url.set(database="tonnage"))):
            connection.exec_driver_sql(statement.replace(_TEXT, charset).replace("%", "%%"))
    return engine


@functools.cache
def _mariadb_statements(template: sa.URL) -> tuple[str, ...]:
    with _administrator(template).connect() as connection:
        tables = [name for (name,) in connection.exec_driver_sql("SHOW TABLES")]
        created = [connection.exec_driver_sql(f"SHOW CREATE TABLE {name}").one()[1] for name in tables]
        filled = [
            f"INSERT INTO {name} SELECT * FROM {_TEMPLATE}.{name}"
            for name in tables
            if connection.exec_driver_sql(f"SELECT COUNT(*) FROM {name}").scalar()
        ]
    return ("SET FOREIGN_KEY_CHECKS = 0", *created, *filled)


def _copy_mariadb(engine: sa.Engine) -> None:
    statements = _mariadb_statements(_template(engine.url.set(database="tonnage")))
    with _administrator(engine.url).connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement.replace("%", "%%"))
