# SPDX-License-Identifier: Apache-2.0
"""The restore of an older database, step by step as the documentation describes it."""

import contextlib
import json
import pathlib
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment
from tests.servers import base, postgresql
from tests.servers.base import wait_for

BACKENDS = {name: {"filesystem_size_limit_gb": 20, "filesystem_provisioning": "thin"} for name in ("one", "two")}


@pytest.fixture
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS, listing_interval=1) as deployment:
        yield deployment.start()


class Backup:
    """A backup of the database, made with the database's own tools."""

    def __init__(self, tonnage: Deployment) -> None:
        self._url = sa.make_url(tonnage.database_url)
        self._file = tonnage.folder / "backup"

    def make(self) -> None:
        match self._url.get_backend_name():
            case "sqlite":
                with (
                    contextlib.closing(sqlite3.connect(str(self._url.database))) as source,
                    contextlib.closing(sqlite3.connect(self._file)) as target,
                ):
                    source.backup(target)
            case "postgresql":
                self._run(postgresql.program("pg_dump"), *self._server("-h"), "-U", "postgres", "-Fc")
            case _:
                self._run(base.find("mariadb-dump"), *self._server("--socket"), "--user=root")

    def restore(self) -> None:
        match self._url.get_backend_name():
            case "sqlite":
                name = str(self._url.database)
                for suffix in ("-wal", "-shm"):
                    pathlib.Path(name + suffix).unlink(missing_ok=True)
                shutil.copy(self._file, name)
            case "postgresql":
                options = ("-U", "postgres", "--clean", "--if-exists", "-d")
                self._run(postgresql.program("pg_restore"), *self._server("-h")[:-1], *options, self._name, load=True)
            case _:
                self._run(base.find("mariadb"), *self._server("--socket"), "--user=root", load=True)

    @property
    def _name(self) -> str:
        return str(self._url.database)

    def _server(self, option: str) -> list[str]:
        folder = self._url.query.get("host") or self._url.query["unix_socket"]
        return [option, str(folder), self._name]

    def _run(self, program: pathlib.Path | None, *arguments: str, load: bool = False) -> None:
        assert program is not None
        with self._file.open("rb" if load else "wb") as file:
            streams: dict[str, Any] = {"stdin" if load else "stdout": file}
            subprocess.run([program, *arguments], check=True, timeout=60, **streams)


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
            found.setdefault(one["cause"], set()).add(one["what"])
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
    backup, rest = Backup(tonnage), tonnage.rest
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
