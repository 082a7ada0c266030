# SPDX-License-Identifier: Apache-2.0
"""A private MariaDB."""

import os
import pwd
import signal
import socket
import subprocess

import pymysql
import sqlalchemy as sa
from pymysql.constants import ER

from tests.servers import base, database


class MariaDB(database.DatabaseServer):
    """MariaDB on a Unix socket.

    Unless it is ``durable``, commits reach the kernel but do not wait for the disk. They survive :meth:`kill`.
    """

    name = "MariaDB"
    packages = "mariadb-server"
    end_signal = signal.SIGKILL  # all of its files are in the folder

    @classmethod
    def installed(cls) -> bool:
        return all((base.find("mariadbd"), base.find("mariadb-install-db")))

    def prepare(self) -> None:
        installer, server = base.find("mariadb-install-db"), base.find("mariadbd")
        assert installer
        assert server
        self._server = server
        self._data = self.folder / "data"
        self._socket = self.folder / "socket"
        # A server removes all temporary tables in this folder at its start, also those of another server.
        self._env = {**os.environ, "TMPDIR": str(self.folder)}
        self._user = pwd.getpwuid(os.geteuid()).pw_name
        self._run(
            [
                *(installer, "--no-defaults", f"--datadir={self._data}", f"--user={self._user}"),
                *("--skip-test-db", "--auth-root-authentication-method=normal"),
            ],
            env=self._env,
        )
        self.url = (
            f"mysql+pymysql://root@localhost/tonnage?unix_socket={self._socket}&ssl_disabled=true&charset=utf8mb4"
        )

    def start(self) -> None:
        super().start()
        with pymysql.connect(unix_socket=str(self._socket), user="root", ssl_disabled=True) as connection:
            connection.cursor().execute("CREATE DATABASE IF NOT EXISTS tonnage")

    def launch(self) -> subprocess.Popen[bytes]:
        return self.popen(
            [
                *(self._server, "--no-defaults", f"--datadir={self._data}", f"--user={self._user}"),
                *(f"--socket={self._socket}", f"--pid-file={self.folder / 'pid'}", "--skip-networking"),
                *("--max-connections=1000", "--character-set-server=utf8mb4"),
                *(f"--innodb-flush-log-at-trx-commit={1 if self._durable else 2}", "--innodb-log-file-size=32M"),
                *([] if self._durable else ["--debug-no-sync", "--innodb-flush-method=nosync"]),
            ],
            env=self._env,
        )

    def _ready(self) -> bool:
        """Return whether the server sends its greeting with the protocol version."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            try:
                client.connect(str(self._socket))
                return client.recv(5)[4:] == b"\x0a"
            except OSError:
                return False

    def _drop(self, name: str) -> None:
        # An open transaction would block the drop, so the clients are disconnected first.
        for (client,) in self.execute(f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"):
            try:
                self.execute(f"KILL {client}")
            except sa.exc.OperationalError as error:
                if (
                    error.orig is None or error.orig.args[0] != ER.NO_SUCH_THREAD
                ):  # otherwise the client has just disconnected
                    raise
        self.execute("SET SESSION lock_wait_timeout = 20", f"DROP DATABASE IF EXISTS {name}")
