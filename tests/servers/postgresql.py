# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

import psutil

from tests.servers import base, database


def folder_of_programs() -> pathlib.Path | None:
    """Return the folder of the programs of the newest installed version. It is usually not on PATH."""
    found = [path.parent for path in pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    elsewhere = shutil.which("initdb")
    return pathlib.Path(elsewhere).resolve().parent if elsewhere else None


def program(name: str) -> pathlib.Path | None:
    """Return a program of the newest installed version."""
    folder = folder_of_programs()
    return folder / name if folder else None


class PostgreSQL(database.DatabaseServer):
    """PostgreSQL on a Unix socket. It refuses to run as root, so root runs it as another user.

    Unless it is ``durable``, commits reach the kernel but do not wait for the disk. They survive :meth:`kill`.
    """

    name = "PostgreSQL"
    packages = "postgresql"
    stop_signal = signal.SIGINT  # ends sessions, writes a checkpoint
    end_signal = signal.SIGQUIT  # no checkpoint, but shared memory is released
    create_options = "STRATEGY FILE_COPY"  # without writing each page to the log

    @classmethod
    def installed(cls) -> bool:
        return folder_of_programs() is not None

    def prepare(self) -> None:
        programs = folder_of_programs()
        assert programs
        self._programs = programs
        self._account = base.unprivileged_user()
        self._data = self.folder / "data"
        self._data.mkdir(mode=0o700)
        if self._account:
            os.chown(self._data, self._account.pw_uid, self._account.pw_gid)
        self._run(
            [
                *(programs / "initdb", "-D", self._data, "-A", "trust", "-U", "postgres", "-E", "UTF8"),
                *("--locale=C.UTF-8", "--no-sync", "--no-instructions"),
            ],
            account=self._account,
        )
        self.url = f"postgresql+psycopg://postgres@/postgres?host={self._data}"

    def launch(self) -> subprocess.Popen[bytes]:
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._data),
            "max_connections": "300",
            "synchronous_commit": "on",
        }
        if not self._durable:
            options |= {"fsync": "off", "full_page_writes": "off"}
        arguments = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        return self.popen([self._programs / "postgres", "-D", self._data, *arguments], account=self._account)

    def _ready(self) -> bool:
        return (
            subprocess.run([self._programs / "pg_isready", "-q", "-h", self._data], cwd="/", check=False).returncode
            == 0
        )

    def kill(self) -> None:
        """Kill all processes of the server. Each has a session of its own, so killing the group is not enough."""
        lines = (self._data / "postmaster.pid").read_text().splitlines()
        family = psutil.Process(self.process.pid).children(recursive=True)
        super().kill()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=self.patience)
        # The shared memory of the data folder survives a kill. The seventh line is "key id".
        subprocess.run(["ipcrm", "-m", lines[6].split()[1]], check=True)

    def _drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
