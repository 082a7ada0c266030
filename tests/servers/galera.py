# SPDX-License-Identifier: Apache-2.0
"""A private Galera cluster: three MariaDB nodes that replicate synchronously, behind HAProxy."""

import contextlib
import os
import pathlib
import pwd
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pymysql
import sqlalchemy as sa

from tests.servers import base, database, mariadb, nodes

_LIBRARIES = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")

#: The account of the distribution's server.
_ACCOUNT = "mysql"

_NODE = """\
[mysqld]
user = {user}
datadir = {data}
socket = {socket}
log-error = {folder}/error.log
pid-file = {folder}/pid
tmpdir = {folder}
bind-address = 0.0.0.0
skip-name-resolve
max-connections = 500
character-set-server = utf8mb4
innodb-buffer-pool-size = 64M
innodb-log-file-size = 32M
innodb-flush-log-at-trx-commit = {flush}
innodb-autoinc-lock-mode = 2
binlog-format = ROW
wsrep-on = ON
wsrep-provider = {library}
wsrep-provider-options = gcache.size=64M;pc.recovery=false
wsrep-cluster-name = tonnage
wsrep-cluster-address = gcomm://{addresses}
wsrep-node-name = db{node}
wsrep-node-address = {address}
wsrep-sst-method = rsync
"""

#: One active server. Its sessions end when it goes down, and those of the others when it comes back.
_PROXY = """\
global
    external-check
    insecure-fork-wanted
defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h
listen galera
    bind 127.0.0.1:{port}
    option external-check
    external-check path "{path}"
    external-check command {check}
    timeout check 2s
    default-server inter 1s fall 2 rise 2 on-marked-down shutdown-sessions on-marked-up shutdown-backup-sessions
{servers}
"""

#: Succeeds for a node that is synchronized with the primary component.
_CHECK = """\
#!/bin/sh
state=$({client} --no-defaults --connect-timeout=1 --user=root --socket="{folder}/$HAPROXY_SERVER_NAME/socket" \\
    --batch --skip-column-names --execute="SHOW STATUS LIKE 'wsrep_local_state'" 2>/dev/null)
[ "${{state#*[[:space:]]}}" = 4 ]
"""


class Galera(nodes.NodeCluster, database.DatabaseServer):
    """Three Galera nodes on addresses of their own. :attr:`url` leads to HAProxy, which uses the first one that it can.

    A node is cut off from the others in its network namespace; HAProxy and clients still reach it.
    """

    name = "Galera"
    packages = "mariadb-server galera-4 rsync lsof haproxy iproute2"

    @classmethod
    def installed(cls) -> bool:
        programs = ("haproxy", "rsync", "lsof", "mariadb")
        return (
            nodes.NodeCluster.installed()
            and mariadb.MariaDB.installed()
            and all(base.find(name) for name in programs)
            and _library() is not None
        )

    def prepare(self) -> None:
        nodes.NodeCluster.prepare(self)
        server, installer = base.find("mariadbd"), base.find("mariadb-install-db")
        assert server
        assert installer
        self._server = server
        # The state transfer runs rsync as a service, which could not write to folders of root.
        self._account = pwd.getpwnam(_ACCOUNT)
        for node, address in enumerate(self.network.addresses):
            self._folder(node).mkdir()
            os.chown(self._folder(node), self._account.pw_uid, self._account.pw_gid)
            self._configuration(node).write_text(
                _NODE.format(
                    user=_ACCOUNT,
                    data=self._data(node),
                    socket=self._socket_of(node),
                    folder=self._folder(node),
                    flush=1 if self._durable else 2,
                    library=_library(),
                    addresses=",".join(self.network.addresses),
                    node=node,
                    address=address,
                )
            )
        self._run(
            [
                *(installer, "--no-defaults", f"--datadir={self._data(0)}", f"--user={_ACCOUNT}", "--skip-test-db"),
                "--auth-root-authentication-method=normal",
            ],
            env=self._env(0),
        )
        self._port = base.free_port()
        self.url = self._url("127.0.0.1", self._port)

    def start(self) -> None:
        """Start the nodes that do not run, and the proxy. If no node runs, the one with the latest commit begins."""
        new = not self._data(0).joinpath("grastate.dat").exists()
        if not any(map(self._runs, range(self.size))):
            first = max(range(self.size), key=lambda node: self._position(node)[1])
            if not new:
                state = self._data(first) / "grastate.dat"
                state.write_text(state.read_text().replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"))
            self._nodes[first] = self._launch_node(first, "--wsrep-new-cluster")
            self.wait_for_node(first)
        if new:
            with self.connect(0) as connection:
                cursor = connection.cursor()
                cursor.execute("CREATE USER tonnage@'%' IDENTIFIED BY 'secret'")
                cursor.execute("GRANT ALL PRIVILEGES ON *.* TO tonnage@'%'")
                cursor.execute("CREATE DATABASE tonnage")
        for node in range(self.size):
            self.start_node(node)
        if new:
            self._start_proxy()
        base.wait_for(self._answers, "an answer through HAProxy")

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The process of the proxy."""
        return self._proxy

    def node_ready(self, node: int) -> bool:
        with contextlib.suppress(pymysql.MySQLError, OSError), self.connect(node) as connection:
            return self._status(connection, "wsrep_local_state") == "4"
        return False

    def is_primary(self, node: int) -> bool:
        """Return whether the node belongs to the part of the cluster that takes writes."""
        with self.connect(node) as connection:
            return self._status(connection, "wsrep_cluster_status") == "Primary"

    def node_url(self, node: int, name: str = "tonnage") -> str:
        """Return the URL of a database that leads to one node directly."""
        return sa.make_url(self._url(self.network.addresses[node], 3306)).set(database=name).render_as_string(False)

    @contextlib.contextmanager
    def connect(self, node: int) -> Iterator["pymysql.Connection[Any]"]:
        """Connect to a node as its administrator. It also answers if it is cut off."""
        with pymysql.connect(
            unix_socket=str(self._socket_of(node)),
            user="root",
            ssl_disabled=True,
            connect_timeout=5,
            read_timeout=30,
            autocommit=True,
        ) as connection:
            yield connection

    def active_node(self) -> int | None:
        """Return the node to which the proxy leads, None while the proxy changes it."""
        with contextlib.suppress(sa.exc.OperationalError):
            ((name,),) = self.execute("SELECT @@wsrep_node_name")
            return int(name.removeprefix("db"))
        return None

    def require_active_node(self) -> int:
        """Wait until the proxy leads to a node, and return it."""
        found: list[int] = base.wait_for(
            lambda: [node for node in [self.active_node()] if node is not None], "an active node", self.patience
        )
        return found[0]

    def _launch_node(self, node: int, *arguments: str) -> "subprocess.Popen[bytes]":
        self._data(node).mkdir(exist_ok=True)
        os.chown(self._data(node), self._account.pw_uid, self._account.pw_gid)
        group, number = self._position(node)
        # A killed node does not know its position. Without it, the node would need a copy of all data.
        start = [f"--wsrep-start-position={group}:{number}"] if number >= 0 else []
        return self._popen_node(node, [*self._command(node), *start, *arguments], self._env(node))

    def _command(self, node: int) -> list[str | pathlib.Path]:
        return [self._server, f"--defaults-file={self._configuration(node)}"]

    def _position(self, node: int) -> tuple[str, int]:
        """Return the cluster's id and the number of the last commit that a stopped node has, -1 without data."""
        if not (self._data(node) / "grastate.dat").exists():
            return "", -1
        log = self._folder(node) / "recovery.log"
        log.unlink(missing_ok=True)
        self._run([*self._command(node), "--wsrep-recover", f"--log-error={log}"], env=self._env(node))
        found = re.search(r"Recovered position:? *([-0-9a-f]{36}):(-?\d+)", log.read_text(errors="replace"))
        return (found[1], int(found[2])) if found else ("", -1)

    def _runs(self, node: int) -> bool:
        process = self._nodes[node]
        return process is not None and process.poll() is None

    def _start_proxy(self) -> None:
        client, proxy = base.find("mariadb"), base.find("haproxy")
        assert client
        assert proxy
        check = self.folder / "check"
        check.write_text(_CHECK.format(client=client, folder=self.folder))
        check.chmod(0o755)
        servers = "\n".join(
            f"    server db{node} {address}:3306 check{' backup' if node else ''}"
            for node, address in enumerate(self.network.addresses)
        )
        configuration = self.folder / "haproxy.cfg"
        path = os.environ.get("PATH", os.defpath)
        configuration.write_text(_PROXY.format(port=self._port, path=path, check=check, servers=servers))
        self._proxy = self.popen([proxy, "-db", "-f", configuration])

    def _answers(self) -> bool:
        with contextlib.suppress(sa.exc.OperationalError):
            return bool(self.execute("SELECT 1"))
        return False

    @staticmethod
    def _status(connection: "pymysql.Connection[Any]", name: str) -> str:
        cursor = connection.cursor()
        cursor.execute("SHOW STATUS LIKE %s", (name,))
        row = cursor.fetchone()
        return row[1] if row else ""

    @staticmethod
    def _url(host: str, port: int) -> str:
        return f"mysql+pymysql://tonnage:secret@{host}:{port}/tonnage?ssl_disabled=true&charset=utf8mb4"

    def _drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name}")

    def _node_log(self, node: int) -> pathlib.Path:
        return self._folder(node) / "error.log"

    def _env(self, node: int) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self._folder(node))}

    def _folder(self, node: int) -> pathlib.Path:
        return self.folder / f"db{node}"

    def _data(self, node: int) -> pathlib.Path:
        return self._folder(node) / "data"

    def _configuration(self, node: int) -> pathlib.Path:
        return self._folder(node) / "my.cnf"

    def _socket_of(self, node: int) -> pathlib.Path:
        return self._folder(node) / "socket"


def _library() -> pathlib.Path | None:
    """Return Galera's library."""
    return next((path for path in map(pathlib.Path, _LIBRARIES) if path.exists()), None)
