# SPDX-License-Identifier: Apache-2.0
"""The ledger on a Galera cluster: processes at several nodes, and the loss of nodes."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

import pytest
import sqlalchemy as sa
from sqlalchemy import event, orm

from tests import servers
from tests.functional.deployment import Addresses, Deployment
from tests.servers.base import wait_for
from tonnage import extension
from tonnage.capacity import errors
from tonnage.ledger.db import database, schema
from tonnage.ledger.db import galera as writer

BACKENDS = {"one": {"filesystem_size_limit_gb": 30}}
QUORUM = {"oslo_messaging_rabbit": {"rabbit_quorum_queue": True, "rabbit_transient_quorum_queue": True}}


@pytest.fixture
def empty(galera: servers.Galera) -> Iterator[str]:
    """The name of a database with the ledger's tables, and with the tables ``guard`` and ``entries``."""
    with galera.database() as url:
        engine = database.create_engine(url)
        schema.sync(engine, extension.installed())
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE guard (id INT PRIMARY KEY)")
            connection.exec_driver_sql("INSERT INTO guard VALUES (1)")
            connection.exec_driver_sql("CREATE TABLE entries (name VARCHAR(32) PRIMARY KEY)")
        engine.dispose()
        name = sa.make_url(url).database
        assert name
        yield name


@pytest.fixture
def ledgers(galera: servers.Galera, empty: str) -> Iterator[list[database.Database]]:
    """The ledger at each node."""
    all_ledgers = [database.Database(database.create_engine(galera.node_url(node, empty)), 20) for node in range(3)]
    yield all_ledgers
    for ledger in all_ledgers:
        ledger.close()


def add_the_first(session: orm.Session, name: str, meet: Callable[[], None] = lambda: None) -> int:
    """Add an entry if there is none, under the lock of a row that is not written. Return the number found."""
    session.execute(sa.text("SELECT id FROM guard FOR UPDATE"))
    found = int(session.scalar(sa.text("SELECT COUNT(*) FROM entries")) or 0)
    meet()
    if not found:
        session.execute(sa.text("INSERT INTO entries VALUES (:name)"), {"name": name})
    return found


def count(ledger: database.Database) -> int:
    with ledger.reading() as session:
        return int(session.scalar(sa.text("SELECT COUNT(*) FROM entries")) or 0)


def test_transactions_at_two_nodes_do_not_overlap(ledgers: list[database.Database]) -> None:
    both = threading.Barrier(2)

    def meet() -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(5)

    with futures.ThreadPoolExecutor() as threads:
        done = [threads.submit(ledgers[node].run, add_the_first, f"at {node}", meet) for node in (0, 1)]
        for future in done:
            future.result(120)
    assert count(ledgers[0]) == 1


@pytest.mark.parametrize("moment", ["in the transaction", "before the commit"])
def test_a_transaction_during_a_change_of_the_writer_runs_again(
    ledgers: list[database.Database], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PATIENCE", 0.0)
    old, new, _ = ledgers
    old.run(lambda session: None)
    attempts: list[int] = []

    def change() -> None:
        if len(attempts) == 1:
            with futures.ThreadPoolExecutor() as threads:
                assert threads.submit(new.run, add_the_first, "new").result(60) == 0

    def work(session: orm.Session) -> None:
        attempts.append(0)
        if moment == "in the transaction":
            attempts[-1] = add_the_first(session, "old", change)
        else:
            event.listen(session, "before_commit", lambda session: change())
            attempts[-1] = add_the_first(session, "old")

    old.run(work)
    assert attempts == [0, 1]
    assert count(old) == 1


def test_a_node_without_a_majority_counts_as_away(galera: servers.Galera, ledgers: list[database.Database]) -> None:
    cut = database.Database(ledgers[2].engine, max_retries=0)
    wait_for(lambda: not unavailable(cut), "the node is the writer", 20)
    galera.network.cut(2)
    try:
        wait_for(lambda: not galera.is_primary(2), "the node has no majority", 30)
        wait_for(lambda: unavailable(cut), "the node counts as away", 5)
        wait_for(lambda: cut.away, "the node counts as away", 5)
        assert add_at(ledgers[0]) == 0
    finally:
        galera.restore_node(2)
    assert add_at(ledgers[2]) == 1


def add_at(ledger: database.Database) -> int:
    return ledger.run(add_the_first, "x")


def unavailable(ledger: database.Database) -> bool:
    try:
        ledger.run(lambda session: None)
    except errors.Unavailable:
        return True
    return False


def test_a_lost_commit_is_recognised(galera: servers.Galera, ledgers: list[database.Database]) -> None:
    """A node that is cut off during a commit cannot tell whether the others have it."""
    wait_for(lambda: not unavailable(ledgers[0]), "the node is the writer", 20)
    attempts: list[bool] = []

    def work(session: orm.Session) -> None:
        attempts.append(database.may_be_committed(session))
        if len(attempts) == 1:
            event.listen(session, "before_commit", lambda session: galera.network.cut(0))
        add_the_first(session, "x")

    restorer = threading.Timer(8, galera.restore_node, (0,))
    restorer.start()
    try:
        ledgers[0].run(work)
    finally:
        restorer.join()
    assert attempts == [False] or attempts[-1], attempts
    assert count(ledgers[0]) == 1


def test_schedulers_at_two_nodes_agree_on_one(
    galera: servers.Galera, brokers: servers.RabbitMQCluster, empty: str
) -> None:
    first, second = (sa.make_url(galera.node_url(node, empty)) for node in (0, 1))
    with Deployment(
        Addresses(first.render_as_string(hide_password=False), brokers.url), BACKENDS, sections=QUORUM
    ) as tonnage:
        rest = tonnage.start().rest
        rest.wait_until_available(rest.create(1))
        other = tonnage.launch_another_scheduler(second, wait=False)
        wait_for(lambda: other.ending, "the other scheduler is refused")
        assert "the ledger is written through Galera node db0" in other.log.read_text()
        for _ in range(6):
            assert rest.request_volume(1).status_code == 202
        tonnage.check_at_rest()
        tonnage.kill("scheduler")
        tonnage.launch("another")
        wait_for(
            lambda: "Scheduler is ready" in other.log.read_text(), "the other scheduler has replaced the first one"
        )


def test_requests_go_on_after_the_loss_of_the_active_node(
    galera: servers.Galera, brokers: servers.RabbitMQCluster
) -> None:
    with (
        galera.database() as url,
        Deployment(Addresses(url, brokers.url), BACKENDS, sections=QUORUM) as tonnage,
    ):
        rest = tonnage.start().rest
        rest.wait_until_available(rest.create(1))
        for disturb in (galera.kill_node, galera.freeze_node, galera.network.cut):
            active = galera.require_active_node()
            disturb(active)
            try:
                wait_for(lambda: rest.request_volume(1).status_code == 202, "a request is accepted", 40)
            finally:
                galera.restore_node(active)
                wait_for(lambda: galera.active_node() == 0, "the proxy leads to the first node again")
            rest.wait_until_available(rest.create(1))
        tonnage.close_connections()
        tonnage.check_at_rest()
