# SPDX-License-Identifier: Apache-2.0
"""The private servers of the tests: they answer, keep committed data, and leave nothing behind."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import kombu
import psutil
import pytest
import sqlalchemy as sa

from tests import servers
from tests.servers import base, database

ROOT = pathlib.Path(__file__).parents[2]
SERVERS = ["postgresql_server", "mariadb_server", pytest.param("rabbitmq_server", marks=pytest.mark.heavy)]
DATABASE_SERVERS = ["postgresql_server", "mariadb_server"]


def _answers(server: servers.Server) -> bool:
    if isinstance(server, servers.RabbitMQ):
        with kombu.Connection(server.url.replace("rabbit:", "amqp:")) as connection:
            connection.connect()
            return True
    return _rows(server.url, "SELECT 1") == [(1,)]


def _rows(url: str, statement: str) -> list[tuple[object, ...]]:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        result = connection.exec_driver_sql(statement)
        return [tuple(row) for row in result] if result.returns_rows else []


def _alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    alive = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_restarts_at_the_same_address(server: str, request: pytest.FixtureRequest) -> None:
    running: servers.Server = request.getfixturevalue(server)
    before, url = running.process.pid, running.url
    running.restart()
    assert running.process.pid != before
    assert running.url == url
    assert _answers(running)


@pytest.mark.parametrize("server", DATABASE_SERVERS)
def test_committed_rows_survive_a_kill(server: str, request: pytest.FixtureRequest) -> None:
    running: database.DatabaseServer = request.getfixturevalue(server)
    with running.database() as url:
        _rows(url, "CREATE TABLE kept (id INTEGER PRIMARY KEY)")
        _rows(url, "INSERT INTO kept VALUES (7)")
        running.kill()
        with pytest.raises(sa.exc.OperationalError):
            _rows(url, "SELECT id FROM kept")
        running.start()
        assert _rows(url, "SELECT id FROM kept") == [(7,)]


@pytest.mark.heavy
def test_rabbitmq_restarts_after_a_kill(rabbitmq_server: servers.RabbitMQ) -> None:
    rabbitmq_server.kill()
    with pytest.raises(OSError, match="refused"):
        _answers(rabbitmq_server)
    rabbitmq_server.start()
    assert _answers(rabbitmq_server)


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_gets_an_empty_database(database_url: str, turn: int) -> None:
    assert sa.inspect(sa.create_engine(database_url, poolclass=sa.NullPool)).get_table_names() == []
    _rows(database_url, "CREATE TABLE left_behind (id INTEGER PRIMARY KEY)")


@pytest.mark.parametrize("server", DATABASE_SERVERS)
def test_a_database_is_dropped_despite_an_open_transaction(server: str, request: pytest.FixtureRequest) -> None:
    running: database.DatabaseServer = request.getfixturevalue(server)
    with contextlib.ExitStack() as stack:
        with running.database() as url:
            _rows(url, "CREATE TABLE held (id INTEGER PRIMARY KEY)")
            connection = stack.enter_context(sa.create_engine(url, poolclass=sa.NullPool).connect())
            connection.exec_driver_sql("INSERT INTO held VALUES (1)")
        with pytest.raises(sa.exc.DBAPIError):
            connection.exec_driver_sql("SELECT * FROM held")
        connection.invalidate()


def test_a_new_virtual_host_has_no_queues(rabbitmq_server: servers.RabbitMQ, fresh_rabbitmq_url: str) -> None:
    name = fresh_rabbitmq_url.rpartition("/")[2]
    assert "mine" not in rabbitmq_server.control("list_queues", "--vhost", name)
    with kombu.Connection(fresh_rabbitmq_url.replace("rabbit:", "amqp:")) as connection:
        kombu.Queue("mine", channel=connection.default_channel).declare()
    assert "mine" in rabbitmq_server.control("list_queues", "--vhost", name)


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        # The end of the processes differs by server; the signal to their user needs one server only.
        pytest.param(servers.PostgreSQL, signal.SIGINT, marks=pytest.mark.heavy),
        pytest.param(servers.PostgreSQL, signal.SIGTERM, marks=pytest.mark.heavy),
        (servers.PostgreSQL, signal.SIGKILL),
        (servers.MariaDB, signal.SIGTERM),
        pytest.param(servers.RabbitMQ, signal.SIGKILL, marks=pytest.mark.heavy),
    ],
    ids=lambda value: value.name,
)
def test_processes_and_folder_are_removed_when_the_user_ends(
    kind: type[servers.Server], how: signal.Signals, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(f"{kind.__name__.lower()}_server")  # skips the test without the server
    code = (
        # Tests that a shell runs in the background ignore Ctrl-C.
        "import signal\nimport time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"from tests import servers\nwith servers.{kind.__name__}() as server:\n"
        "    print(*[process.pid for process in server._processes], server.folder, flush=True)\n"
        # A signal just before signal.pause() would be noticed after it only.
        "    while True:\n        time.sleep(0.1)\n"
    )
    command = [sys.executable, "-c", code]
    user = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert user.stdout
        *pids, folder = user.stdout.readline().split()
        processes = [psutil.Process(int(pid)) for pid in pids]
        processes += [child for process in processes for child in process.children(recursive=True)]
        user.send_signal(how)
        user.wait(60)
    finally:
        user.kill()
        user.communicate()
    base.wait_for(
        lambda: not _alive(processes) and not os.path.exists(folder),
        f"the processes and the folder of {kind.name} are removed",
    )


def test_close_ends_every_process(postgresql_server: servers.PostgreSQL) -> None:
    with servers.PostgreSQL() as another:
        processes = [psutil.Process(another.process.pid)]
        processes += processes[0].children(recursive=True)
        assert another.url != postgresql_server.url
        assert _answers(another)
    assert not _alive(processes)
    assert not another.folder.exists()
    assert _answers(postgresql_server)
