# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL cluster: three nodes with a synchronous standby, managed by Patroni with etcd."""

import contextlib
import http.client
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import psutil
import sqlalchemy as sa

from tests.servers import base, network, nodes, postgresql

_POSTGRESQL, _REST, _ETCD = 5432, 8008, 2379

#: Patroni accepts no shorter times to live. A new primary follows a dead one after ``TTL`` seconds and an election.
TTL = 20

#: Runs a node as a machine of its own: with its end all its processes end, and its shared memory is gone.
_MACHINE = ("unshare", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc")


#: Disturbs one node.
Fault = Callable[["Patroni", int], None]


class Patroni(nodes.NodeCluster, postgresql.PostgreSQL):
    """Three PostgreSQL nodes on addresses of their own: one primary, at least one synchronous standby.

    :attr:`url` names all nodes; clients look for the one that takes writes. A node that is cut off reaches neither the
    other nodes nor etcd; clients still reach it.
    """

    name = "Patroni"
    packages = "postgresql etcd-server iproute2, and the dependency group 'test'"
    stop_signal = signal.SIGTERM
    patience = 180.0
    connect_arguments = {"target_session_attrs": "read-write", "connect_timeout": 3}  # noqa: RUF012

    @classmethod
    def installed(cls) -> bool:
        return (
            nodes.NodeCluster.installed()
            and postgresql.PostgreSQL.installed()
            and base.find("etcd") is not None
            and base.find("setpriv") is not None
            and importlib.util.find_spec("patroni") is not None
        )

    def prepare(self) -> None:
        account = base.unprivileged_user()
        assert account
        self._account = account
        self.network = network.Network(self.popen, self.size + 1)
        self._nodes = [None] * self.size
        self._etcd: subprocess.Popen[bytes] | None = None
        for node in range(self.size):
            folder = self._folder(node)
            folder.mkdir(mode=0o700)
            self._configuration(node).write_text(json.dumps(self._settings(node)))  # YAML, too
            os.chown(folder, account.pw_uid, account.pw_gid)
        hosts = "&".join(f"host={address}:{_POSTGRESQL}" for address in self.network.addresses[: self.size])
        self.url = f"postgresql+psycopg://postgres@/postgres?{hosts}"

    def start(self) -> None:
        """Start etcd and all nodes that do not run, and wait until the cluster has a synchronous standby."""
        self.start_etcd()
        for node in range(self.size):
            self.start_node(node, wait=False)
        base.wait_for(self._ready, f"{self.name} has a primary and streaming standbys", self.patience)

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The process of etcd."""
        assert self._etcd
        return self._etcd

    def start_etcd(self) -> None:
        """Start etcd with its data. If it runs, it goes on."""
        if self._etcd is not None and self._etcd.poll() is None:
            return
        program, address = base.find("etcd"), self.network.addresses[self.size]
        assert program
        client, peer = f"http://{address}:{_ETCD}", f"http://{address}:2380"
        self._etcd = self.popen(
            self.network.command(
                self.size,
                [
                    *(program, "--data-dir", self.folder / "etcd", "--logger", "zap", "--log-level", "error"),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"default={peer}"),
                ],
            )
        )

    def kill_etcd(self) -> None:
        """Kill etcd. Without it the primary becomes read-only within seconds."""
        self.process.kill()
        self.process.wait(self.patience)

    def node_ready(self, node: int) -> bool:
        """Return whether the node is the primary, or a standby that receives the changes of the primary."""
        status = self._ask(node, "GET", "/patroni")
        return status.get("state") == "running" and (
            status.get("role") == "primary" or status.get("replication_state") == "streaming"
        )

    def primary(self) -> int | None:
        """Return the node that takes writes, None if there is none."""
        with contextlib.suppress(sa.exc.OperationalError):
            ((address,),) = self.execute("SELECT host(inet_server_addr())")
            return self.network.addresses.index(address)
        return None

    def synchronous_standbys(self) -> list[int]:
        """Return the standbys for whose confirmation each commit waits. One of them follows a lost primary."""
        for node in range(self.size):
            for member in self._ask(node, "GET", "/cluster").get("members", ()):
                if member["role"] == "leader":
                    cluster = self._ask(int(member["name"][2:]), "GET", "/cluster")
                    return [
                        int(each["name"][2:]) for each in cluster.get("members", ()) if each["role"] == "sync_standby"
                    ]
        return []

    def require_primary(self) -> int:
        """Wait for a primary, and return it."""
        found: list[int] = base.wait_for(
            lambda: [node for node in [self.primary()] if node is not None], "a primary", self.patience
        )
        return found[0]

    def switch_over(self, leader: int) -> None:
        """Let a synchronous standby and the primary swap their roles. Raises RuntimeError if Patroni refuses."""
        answer = self._ask(leader, "POST", "/switchover", {"leader": f"db{leader}"})
        if answer.get("status") != 200:
            raise RuntimeError(f"{self.name}: {answer}")

    def cut_node(self, node: int) -> None:
        """Cut a node off from the other nodes and from etcd. Clients still reach it."""
        self.network.cut(node)

    def restore_node(self, node: int) -> None:
        """End the disturbance of a node, and wait until the whole cluster works again."""
        super().restore_node(node)
        base.wait_for(self._ready, f"{self.name} has a primary and streaming standbys", self.patience)

    def configure(self, **settings: Any) -> None:
        """Change settings of the whole cluster, such as ``synchronous_mode``."""
        for node in range(self.size):
            if self._ask(node, "PATCH", "/config", settings).get("status", 200) == 200:
                return
        raise RuntimeError(f"{self.name}: no node takes {settings}")

    def _ready(self) -> bool:
        return all(self.node_ready(node) for node in range(self.size)) and bool(self.synchronous_standbys())

    def _launch_node(self, node: int) -> "subprocess.Popen[bytes]":
        # The process ids of a new machine begin anew, so the one in this file may be that of another process.
        (self._folder(node) / "data" / "postmaster.pid").unlink(missing_ok=True)
        assert self._account
        account = (
            *("setpriv", f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"),
            # The interpreter may be in a folder that only root can read.
            *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
        )
        program = (sys.executable, "-m", "patroni", self._configuration(node))
        env = {**os.environ, "HOME": str(self._folder(node)), "PGTZ": "UTC"}
        return self._popen_node(node, [*_MACHINE, *account, *program], env)

    def _signal_node(self, node: int, number: signal.Signals) -> None:
        process = self._nodes[node]
        if process is None or process.poll() is not None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            # The first process of the machine ends all others; unshare itself takes no signals.
            family = psutil.Process(process.pid).children(recursive=True)
            for one in family if number in (signal.SIGSTOP, signal.SIGCONT) else family[:1]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.send_signal(number)

    def _ask(self, node: int, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer of a node's Patroni with the status, {} if it does not answer."""
        connection = http.client.HTTPConnection(self.network.addresses[node], _REST, timeout=30 if body else 2)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request(method, path, json.dumps(body) if body else None)
            answer = connection.getresponse()
            text = answer.read().decode()
            with contextlib.suppress(ValueError):
                return dict(json.loads(text))
            return {"status": answer.status, "text": text}
        return {}

    def _settings(self, node: int) -> dict[str, Any]:
        folder, address = self._folder(node), self.network.addresses[node]
        parameters: dict[str, Any] = {"max_connections": 300, "wal_log_hints": "on"}
        if not self._durable:
            parameters |= {"fsync": "off", "full_page_writes": "off"}
        access = [f"host {database} all 0.0.0.0/0 trust" for database in ("all", "replication")]
        return {
            "scope": "tonnage",
            "name": f"db{node}",
            "restapi": {"listen": f"{address}:{_REST}", "connect_address": f"{address}:{_REST}"},
            "etcd3": {"hosts": f"{self.network.addresses[self.size]}:{_ETCD}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "primary_start_timeout": 0,
                    "synchronous_mode": True,
                    "postgresql": {"use_pg_rewind": True, "parameters": parameters},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "no-sync"],
            },
            "postgresql": {
                "listen": f"{address}:{_POSTGRESQL}",
                "connect_address": f"{address}:{_POSTGRESQL}",
                "data_dir": str(folder / "data"),
                "bin_dir": str(postgresql.folder_of_programs()),
                "pgpass": str(folder / "pgpass"),
                "pg_hba": ["local all all trust", *access],
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "replicator"}},
                "parameters": {"unix_socket_directories": str(folder)},
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
            },
        }

    def _folder(self, node: int) -> pathlib.Path:
        return self.folder / f"db{node}"

    def _configuration(self, node: int) -> pathlib.Path:
        return self._folder(node) / "patroni.json"
