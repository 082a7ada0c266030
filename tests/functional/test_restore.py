# SPDX-License-Identifier: Apache-2.0
"""The restore of an older database, step by step as the documentation describes it."""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment
from tests.servers import postgresql
from tests.servers.base import wait_for

BACKENDS = {name: {"filesystem_size_limit_gb": 20, "filesystem_provisioning": "thin"} for name in ("one", "two")}


@pytest.fixture
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS, listing_interval=1) as deployment:
        yield deployment.start()


DOCUMENTATION = pathlib.Path(__file__).parents[2] / "docs" / "ledger-check.rst"
#: The documented commands, by database and step.
COMMANDS = {
    title: textwrap.dedent(commands)
    for title, commands in re.findall(
        r"\.\. code-block:: sh\n\n +# (\w+: [\w ]+)\n((?: +.+\n)+)", DOCUMENTATION.read_text(encoding="utf-8")
    )
}


class Backup:
    """A backup of a database, made and restored by the documented commands."""

    def __init__(self, url: str, folder: pathlib.Path) -> None:
        self._url = sa.make_url(url)
        self._folder = folder

    def make(self) -> None:
        self._run("back up")

    def restore(self) -> None:
        self._run("restore")

    def _run(self, step: str) -> None:
        name, socket = str(self._url.database), str(self._url.query.get("unix_socket"))
        kind = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(self._url.get_backend_name(), "MariaDB")
        commands = COMMANDS[f"{kind}: {step}"]
        if kind != "SQLite":
            commands = re.sub(r"\btonnage\b", name, commands.replace("--owner=tonnage", "--owner=postgres"))
        commands = commands.replace("/var/lib/tonnage/tonnage.sqlite", name)
        commands = commands.replace("/backup/ledger", str(self._folder / "backup"))
        (self._folder / ".my.cnf").write_text(f"[client]\nuser = root\nsocket = {socket}\n")
        environment = {
            "PATH": f"{postgresql.folder_of_programs()}:{os.environ['PATH']}",
            "HOME": str(self._folder),
            "PGUSER": "postgres",
            "PGHOST": str(self._url.query.get("host")),
        }
        subprocess.run(["/bin/sh", "-ec", commands], check=True, timeout=60, env=environment)


def manage(tonnage: Deployment, *command: str) -> tuple[int, str]:
    """Run ``tonnage-manage`` and return its exit code and its output."""
    done = tonnage.run_command("manage", tonnage.conf, *command)
    return done.code, done.output + done.error


def findings(tonnage: Deployment) -> dict[str, set[str]]:
    """Return the subjects of the findings that listings have led to, by their cause."""
    _, output = manage(tonnage, "ledger", "check", "--json")
    found: dict[str, set[str]] = {}
    for one in json.loads(output)["findings"]:
        if one["cause"] in ("misplaced", "lost", "size", "orphan"):
            found.setdefault(one["cause"], set()).add(one["subject"])
    return found


def marked(tonnage: Deployment, text: bytes) -> bool:
    """Return whether exactly one volume on the storage begins with this text."""
    number = 0
    for path in (tonnage.path(backend) / name for backend in BACKENDS for name in tonnage.files(backend)):
        with path.open("rb") as file:
            number += file.read(len(text)) == text
    return number == 1


def create(tonnage: Deployment, text: bytes) -> tuple[str, str]:
    """Create a volume whose content begins with a text, and return its id and its backend."""
    volume_id = tonnage.rest.wait_until_available(tonnage.rest.create(1))["id"]
    [backend] = [backend for backend in BACKENDS if volume_id in tonnage.files(backend)]
    with (tonnage.path(backend) / volume_id).open("r+b") as file:
        file.write(text)
    return volume_id, backend


def act(tonnage: Deployment, volume_id: str, action: str, **arguments: Any) -> None:
    answer = tonnage.rest.request("POST", f"volumes/{volume_id}/action", {action: arguments})
    assert answer.status_code == 202, answer.text


def adopt(tonnage: Deployment, name: str) -> None:
    """Manage a file, in the backend that has it."""
    [backend] = [backend for backend in BACKENDS if name in tonnage.files(backend)]
    body = {"volume": {"host": tonnage.pool(backend), "ref": {"source-name": name}}}
    answer = tonnage.rest.request("POST", "manageable_volumes", body)
    assert answer.status_code == 202, answer.text
    tonnage.rest.wait_until_available(answer.json()["volume"]["id"])


@on_one_database
def test_ledger_and_storage_agree_after_a_restore(tonnage: Deployment) -> None:
    backup, rest = Backup(tonnage.database_url, tonnage.folder), tonnage.rest
    kept, deleted, grown, moved = (create(tonnage, text) for text in (b"kept", b"deleted", b"grown", b"moved"))
    tonnage.stop()
    backup.make()
    tonnage.start()
    rest.delete(deleted[0])
    assert rest.extend(grown[0], 2).status_code == 202
    target = "two" if moved[1] == "one" else "one"
    act(tonnage, moved[0], "os-migrate_volume", host=tonnage.pool(target))
    added, _ = create(tonnage, b"added")
    tonnage.check_at_rest()

    tonnage.stop()
    tonnage.close_connections()
    backup.restore()
    assert manage(tonnage, "ledger", "restored")[0] == 0
    tonnage.start()
    expected = {
        "misplaced": {moved[0]},
        "lost": {deleted[0]},
        "size": {grown[0]},
        "orphan": {moved[0], added},
    }
    wait_for(lambda: findings(tonnage) == expected, "the listings show all differences")
    code, output = manage(tonnage, "orphan", "purge", tonnage.pool(target), moved[0], "--yes")
    assert code == 1
    assert "this may be its only copy" in output
    assert manage(tonnage, "ledger", "repair")[0] == 3, "a person has to decide on the rest"
    assert rest.volume(moved[0])["os-vol-host-attr:host"] == tonnage.pool(target)

    rest.delete(deleted[0])
    act(tonnage, grown[0], "os-unmanage")
    for name in (grown[0], added):
        adopt(tonnage, name)
    wait_for(lambda: manage(tonnage, "ledger", "check", "--strict")[0] == 0, "ledger and storage agree")
    assert all(marked(tonnage, text) for text in (b"kept", b"grown", b"moved", b"added"))
    tonnage.check_at_rest()
    assert rest.volume(kept[0])["status"] == "available"


@contextlib.contextmanager
def no_volume_is_made(tonnage: Deployment) -> Iterator[None]:
    """Hold the locks of the folders of all pools, for which the driver waits before it makes a file."""
    with contextlib.ExitStack() as cleanup:
        for backend in BACKENDS:
            folder = os.open(tonnage.path(backend), os.O_RDONLY)
            cleanup.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield


def volumes_on_storage(tonnage: Deployment) -> set[tuple[str, str]]:
    """Return the backend and the id of each volume whose file exists."""
    return {(backend, name) for backend in BACKENDS for name in tonnage.files(backend)}


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", ["standalone", "postgresql", "mariadb"], indirect=True, scope="module")
def test_volumes_whose_operations_were_pending_at_the_backup_survive_it(deploy: Deploy) -> None:
    down_time, lease = 4, 1
    with deploy(BACKENDS, listing_interval=1, service_down_time=down_time, claim_lease=lease) as tonnage:
        rest = tonnage.start().rest
        backup = Backup(tonnage.database_url, tonnage.folder)
        moved, source = create(tonnage, b"moved")
        target = "two" if source == "one" else "one"
        with no_volume_is_made(tonnage):
            made = rest.create(1)
            act(tonnage, moved, "os-migrate_volume", host=tonnage.pool(target))
            backup.make()
        [backend] = [
            name for name in BACKENDS if tonnage.pool(name) == rest.wait_until_available(made)["os-vol-host-attr:host"]
        ]
        with (tonnage.path(backend) / made).open("r+b") as file:
            file.write(b"made")
        tonnage.check_at_rest()
        before = volumes_on_storage(tonnage)
        assert before == {(backend, made), (target, moved)}

        tonnage.stop()
        tonnage.close_connections()
        backup.restore()
        code, output = manage(tonnage, "ledger", "restored")
        assert (code, output.count("create"), output.count("migrate")) == (0, 1, 1), output
        if tonnage.distributed:
            tonnage.launch("scheduler")
            # The scheduler gives up operations of agents that are away for longer than this, and sweeps again.
            time.sleep(down_time + lease + 3)
            tonnage.launch("agent")
        else:
            tonnage.launch("standalone")
        expected = {"misplaced": {moved}, "orphan": {moved}}
        wait_for(lambda: findings(tonnage) == expected, "the listings show all differences")
        assert manage(tonnage, "ledger", "repair")[0] == 4, "all is repaired"
        if tonnage.distributed:
            tonnage.launch("api")
        wait_for(rest.is_healthy, "the API serves")
        assert rest.volume(made)["status"] == "error"
        act(tonnage, made, "os-reset_status", status="available")
        wait_for(lambda: manage(tonnage, "ledger", "check", "--strict")[0] == 0, "ledger and storage agree")
        tonnage.check_at_rest()
        assert volumes_on_storage(tonnage) == before
        assert all(marked(tonnage, text) for text in (b"made", b"moved"))


#: Commits two rows and does not end the connection properly, which leaves the files of the write-ahead log.
_CRASH = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.executescript("PRAGMA journal_mode = wal; INSERT INTO volumes VALUES ('later'), ('last')")
os._exit(1)
"""


def test_nothing_of_a_crashed_sqlite_database_remains_after_a_restore(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tonnage.sqlite"
    backup = Backup(f"sqlite:///{file}", tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("PRAGMA journal_mode = wal; CREATE TABLE volumes (id); INSERT INTO volumes VALUES (1)")
    backup.make()
    subprocess.run([sys.executable, "-c", _CRASH, str(file)], check=False, timeout=60)
    assert pathlib.Path(f"{file}-wal").stat().st_size > 0
    backup.restore()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT id FROM volumes").fetchall() == [(1,)]
