# SPDX-License-Identifier: Apache-2.0
"""The move of a ledger to another database, and storage that belongs to another ledger."""

import contextlib
import http.client
import json
import pathlib
import sqlite3
from collections.abc import Iterator

import psutil
import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import Addresses, Deployment
from tests.servers.base import wait_for

BACKENDS = {"one": {"filesystem_size_limit_gb": 20, "filesystem_provisioning": "thin"}}


@pytest.fixture
def tonnage() -> Iterator[Deployment]:
    """One process with SQLite."""
    with Deployment(Addresses(), BACKENDS, listing_interval=1) as deployment:
        yield deployment.start()


@pytest.fixture(params=["postgresql", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("sqlite", "mariadb"))])
def empty_database(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[str]:
    """The URL of a database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'folder' / 'copy.sqlite'}"
        return
    with contextlib.ExitStack() as cleanup:
        url = cleanup.enter_context(request.getfixturevalue(f"{request.param}_server").database())
        # The server of the tests asks for no password.
        yield f"{url}&password=SECRET" if request.param == "postgresql" else url


def manage(tonnage: Deployment, *command: str) -> tuple[int, str]:
    """Run ``tonnage-manage`` and return its exit code and its output."""
    done = tonnage.run_command("manage", tonnage.conf, *command)
    return done.code, done.output + done.error


def test_a_ledger_goes_on_in_another_database(tonnage: Deployment, empty_database: str) -> None:
    rest = tonnage.rest
    kept, deleted = (rest.wait_until_available(rest.create(1))["id"] for _ in range(2))
    rest.delete(deleted)
    rest.create_type("gold", tier="1")
    tonnage.check_at_rest()
    code, output = manage(tonnage, "db", "copy", "--to", empty_database)
    assert (code, f"stop the scheduler on {tonnage.host}" in output) == (1, True), output
    tonnage.stop()
    code, output = manage(tonnage, "db", "copy", "--to", empty_database)
    assert (code, "volumes: 1 row(s)" in output, "SECRET" in output) == (0, True, False), output
    code, output = manage(tonnage, "db", "copy", "--to", empty_database)
    refused = "the ledger was copied from this database to" in output
    assert (code, refused, "SECRET" in output) == (1, True, False), output
    tonnage.launch("standalone")
    assert tonnage.processes["standalone"].wait() == 1
    assert "tonnage-manage db copy --undo" in tonnage.processes["standalone"].log.read_text()

    tonnage.use_database(empty_database)
    tonnage.start()
    assert [volume["id"] for volume in rest.volumes()] == [kept]
    specs = {kind["name"]: kind["extra_specs"] for kind in rest.get("types")["volume_types"]}
    assert specs == {"__DEFAULT__": {}, "gold": {"tier": "1"}}
    rest.create_type("silver")
    rest.wait_until_available(rest.create(2))
    rest.delete(kept)
    tonnage.check_at_rest()
    code, output = manage(tonnage, "ledger", "check", "--strict")
    assert code == 0, output


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("deploy", "empty_database"),
    [
        ("mariadb", "postgresql"),
        ("postgresql", "mariadb"),
        ("postgresql", "sqlite"),
    ],
    indirect=True,
)
def test_a_ledger_goes_on_in_a_database_of_another_server(deploy: Deploy, empty_database: str) -> None:
    with deploy(BACKENDS, listing_interval=1) as tonnage:
        rest = tonnage.start().rest
        rest.create_type("gold")
        kept, deleted = (rest.wait_until_available(rest.create(1, "gold"))["id"] for _ in range(2))
        rest.delete(deleted)
        tonnage.check_at_rest()
        tonnage.stop()
        code, output = manage(tonnage, "db", "copy", "--to", empty_database)
        assert (code, "volumes: 1 row(s)" in output) == (0, True), output
        tonnage.launch("scheduler")
        assert tonnage.processes["scheduler"].wait() == 1
        assert "tonnage-manage db copy --undo" in tonnage.processes["scheduler"].log.read_text()

        tonnage.use_database(empty_database)
        tonnage.start()
        assert [(volume["id"], volume["volume_type"]) for volume in rest.volumes()] == [(kept, "gold")]
        rest.wait_until_available(rest.create(2, rest.create_type("silver")))
        rest.delete(kept)
        tonnage.check_at_rest()
        code, output = manage(tonnage, "ledger", "check", "--strict")
        assert code == 0, output


def test_the_copied_ledger_can_be_used_again(tonnage: Deployment, tmp_path: pathlib.Path) -> None:
    tonnage.stop()
    copy = f"sqlite:///{tmp_path / 'copy.sqlite'}"
    assert manage(tonnage, "db", "copy", "--to", copy)[0] == 0
    assert manage(tonnage, "db", "copy", "--undo")[0] == 0
    tonnage.start()
    code, output = manage(tonnage, "db", "copy", "--to", "sqlite://")
    assert (code, "--to names a database in memory" in output) == (1, True), output
    tonnage.stop()
    code, output = manage(tonnage, "db", "copy", "--to", copy)
    assert (code, "has rows in table" in output) == (1, True), output


def suspend_between_transactions(tonnage: Deployment) -> list[psutil.Process]:
    """Suspend the process while it does not hold the lock of SQLite's writer."""
    family = tonnage.processes["standalone"].tree()

    def suspended() -> bool:
        for one in family:
            one.suspend()
        with contextlib.closing(sqlite3.connect(tonnage.folder / "tonnage.sqlite", timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                for one in family:
                    one.resume()
                return False
        return True

    wait_for(suspended, "the process is suspended outside of any transaction")
    return family


@pytest.mark.heavy
def test_a_process_that_was_suspended_during_the_copy_accepts_nothing_and_ends(
    tonnage: Deployment, tmp_path: pathlib.Path
) -> None:
    suspended = suspend_between_transactions(tonnage)
    tonnage.write("UPDATE services SET last_seen_at = '2020-01-01 00:00:00'")
    code, output = manage(tonnage, "db", "copy", "--to", f"sqlite:///{tmp_path / 'copy.sqlite'}")
    assert code == 0, output
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", tonnage.port, timeout=60)) as connection:
        # The operating system accepts the connection, and the process gets the request when it wakes up.
        body = json.dumps({"volume": {"size": 1}})
        connection.request("POST", "/v3/demo/volumes", body, {"Content-Type": "application/json"})
        for process in suspended:
            process.resume()
        with contextlib.suppress(ConnectionError):
            assert connection.getresponse().status == 503
    assert tonnage.processes["standalone"].wait() == 1
    assert "tonnage-manage db copy --undo" in tonnage.processes["standalone"].log.read_text()
    assert tonnage.sql("SELECT id FROM volumes") == []


def test_an_empty_ledger_does_not_take_the_volumes_of_another_for_orphans(tonnage: Deployment) -> None:
    rest = tonnage.rest
    volume = rest.wait_until_available(rest.create(1))["id"]
    tonnage.stop()
    tonnage.use_database(f"sqlite:///{tonnage.folder / 'empty.sqlite'}")
    assert manage(tonnage, "db", "sync")[0] == 0
    tonnage.launch("standalone")
    log = tonnage.processes["standalone"].log
    wait_for(lambda: "cannot join yet" in log.read_text(), "the agent logs that it does not join")
    assert "the storage belongs to ledger" in log.read_text()
    assert f"Backend {tonnage.host}@one is refused: the storage belongs to ledger" in log.read_text()
    assert "had no orphans" in manage(tonnage, "orphan", "list")[1]
    assert manage(tonnage, "orphan", "purge", tonnage.pool("one"), volume, "--yes")[0] == 1
    assert volume in tonnage.files("one")
