# SPDX-License-Identifier: Apache-2.0
"""A URL with several hosts, of which some are silent."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.servers.postgresql import PostgreSQL
from tonnage.capacity import errors
from tonnage.ledger.db import database


@pytest.fixture
def silent_host() -> Iterator[str]:
    """A host that neither refuses connections nor answers."""
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def connecting(url: str) -> tuple[database.Database, list[Any]]:
    """Return a database, and the list to which it adds the hosts of each attempt to connect."""
    ledger = database.Database(database.create_engine(url, poolclass=sa.NullPool), 1, 0, 0)
    connect, tried = ledger.engine.dialect.connect, list[Any]()

    def noting(*args: Any, **given: Any) -> Any:
        tried.append(given["host"].split(","))
        return connect(*args, **given)

    ledger.engine.dialect.connect = noting  # type: ignore[method-assign]
    return ledger, tried


def test_the_host_that_takes_writes_is_tried_first(silent_host: str, postgresql_server: PostgreSQL) -> None:
    folder = sa.make_url(postgresql_server.url).query["host"]
    ledger, tried = connecting(
        f"postgresql+psycopg://postgres@/postgres?host={silent_host}&host={folder}:5432&connect_timeout=2"
    )
    for _ in range(3):
        with ledger.reading() as session:
            assert session.scalar(sa.text("SELECT 1")) == 1
    silent = silent_host.partition(":")[0]
    assert tried == [[silent, folder], [folder, silent], [folder, silent]]
    ledger.close()


def test_a_silent_host_moves_to_the_end(silent_host: str) -> None:
    ledger, tried = connecting(
        f"postgresql+psycopg://postgres@/postgres?host={silent_host}&host=localhost:1&connect_timeout=2"
    )
    with pytest.raises(errors.Unavailable), ledger.reading():
        pass
    silent = silent_host.partition(":")[0]
    assert tried[:2] == [[silent, "localhost"], ["localhost", silent]]
    ledger.close()
