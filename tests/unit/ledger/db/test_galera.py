# SPDX-License-Identifier: Apache-2.0
"""The writer of the ledger. One MariaDB server plays several nodes: the name of the node is a variable of the test."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event, orm

from tests.servers import ledger_schema
from tonnage.capacity import errors
from tonnage.ledger.db import database, galera


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A process whose connections lead to a node with this name."""

    def __init__(self, url: str, name: str) -> None:
        self.engine = database.create_engine(url)
        event.listen(self.engine, "connect", self._connected)
        event.listen(self.engine, "before_cursor_execute", self._rename, retval=True)
        self.ledger = database.Database(self.engine, max_retries=0)
        self.clock = Clock()
        self.ledger._writer = galera.Writer(self.clock)
        self._name = name

    def _connected(self, connection: Any, record: Any) -> None:
        assert record.info[galera.IS_NODE] is False
        record.info[galera.IS_NODE] = True

    def _rename(self, connection: Any, cursor: Any, statement: str, parameters: Any, *more: Any) -> tuple[str, Any]:
        return statement.replace("@@wsrep_node_name", f"'{self._name}'"), parameters

    def write(self) -> None:
        """Run a transaction, and once more after a change of the writer."""
        with contextlib.suppress(errors.Unavailable):
            self.ledger.run(lambda session: None)
            return
        self.ledger.run(lambda session: None)

    def wait(self) -> None:
        """Let the time pass after which an unused writer is replaced."""
        self.clock.now += galera.PATIENCE


@pytest.fixture
def nodes(mariadb_url: str) -> Iterator[tuple[Node, Node]]:
    engine = database.create_engine(mariadb_url)
    ledger_schema.create(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM writer_slots")
    two = Node(mariadb_url, "one"), Node(mariadb_url, "two")
    yield two
    for node in two:
        node.engine.dispose()
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM writer_slots")
    engine.dispose()


def slots(node: Node) -> list[tuple[int, str]]:
    with node.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT DISTINCT term, node FROM writer_slots")
        return [(term, name.partition(" ")[0]) for term, name in rows]


def test_the_first_process_makes_its_node_the_writer(nodes: tuple[Node, Node]) -> None:
    one, _ = nodes
    one.write()
    assert slots(one) == [(1, "one")]


def test_another_node_is_refused_while_the_writer_is_in_use(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    one.write()
    for _ in range(3):
        with pytest.raises(errors.Unavailable, match=r"written through Galera node one \(.*leads to two \("):
            two.ledger.run(lambda session: None)
        with pytest.raises(errors.Unavailable), two.ledger.reading():
            pass
        two.wait()
        one.write()
    assert slots(one) == [(1, "one")]
    with one.ledger.reading():
        pass


def test_another_node_becomes_the_writer_when_the_writer_is_unused(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    one.write()
    with pytest.raises(errors.Unavailable):
        two.ledger.run(lambda session: None)
    two.wait()
    two.write()
    assert slots(two) == [(2, "two")]
    with pytest.raises(errors.Unavailable, match="written through Galera node two"):
        one.ledger.run(lambda session: None)


def test_a_transaction_of_an_earlier_term_is_not_committed(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    one.write()
    with pytest.raises(errors.Unavailable):
        two.ledger.run(lambda session: None)
    two.wait()

    def write(session: orm.Session) -> None:
        session.execute(sa.text("UPDATE writer_slots SET uses = 1000 WHERE slot = -1"))  # begins the transaction
        two.write()

    with pytest.raises(errors.Unavailable):
        one.ledger.run(write)
    assert slots(two) == [(2, "two")]


def test_two_processes_that_replace_the_writer_at_once_change_it_once(nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    one.write()
    with pytest.raises(errors.Unavailable):
        two.ledger.run(lambda session: None)
    with orm.Session(two.engine) as session:
        other = two.ledger._writer.enter(session)
    assert isinstance(other, galera.OtherWriter)
    for expected in ((2, "two"), None):
        with orm.Session(two.engine) as session, session.begin():
            if expected:
                galera.Writer.take_over(session, other)
            else:
                with pytest.raises(galera.db_errors.Collision):
                    galera.Writer.take_over(session, other)
    assert slots(two) == [(2, "two")]


def test_a_single_server_has_no_writer(mariadb_url: str) -> None:
    engine = database.create_engine(mariadb_url)
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    ledger.run(lambda session: None)
    with ledger.reading() as session:
        assert session.scalar(sa.text("SELECT COUNT(*) FROM writer_slots")) == 0
    ledger.close()
