# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import uuid
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from tests.servers import base

_PROGRAMS = pathlib.Path("/usr/lib/rabbitmq/bin")
"""The folder of the programs. The wrappers on PATH require the account of the service."""

_CONFIGURATION = """\
loopback_users = none
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 50MB
"""
_MANAGEMENT = """\
management.tcp.ip = 127.0.0.1
management.tcp.port = {port}
management_agent.disable_metrics_collector = true
"""


class RabbitMQ(base.Server):
    """RabbitMQ on free ports of 127.0.0.1, with a port mapper (epmd) of its own."""

    name = "RabbitMQ"
    packages = "rabbitmq-server"
    end_signal = signal.SIGKILL  # all of its files are in the folder

    @classmethod
    def installed(cls) -> bool:
        return (_PROGRAMS / "rabbitmq-server").exists() and base.find("epmd") is not None

    def __init__(self, *, durable: bool = False, managed: bool = True) -> None:
        """Without ``managed`` the server starts and stops sooner, but has no :meth:`virtual_host`."""
        super().__init__(durable=durable)
        self._managed = managed

    def prepare(self) -> None:
        self._port, mapper, distribution = base.free_port(), base.free_port(), base.free_port()
        self._management = base.free_port()
        (self.folder / "plugins").write_text("[rabbitmq_management].\n" if self._managed else "[].\n")
        management = _MANAGEMENT.format(port=self._management) if self._managed else ""
        (self.folder / "rabbitmq.conf").write_text(_CONFIGURATION + management)
        self._env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_NODENAME": f"r{self._port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script executes the server instead of becoming its parent
        }
        epmd = base.find("epmd")
        assert epmd
        # Without a running port mapper, the server would start one that survives the server.
        self.popen([epmd, "-address", "127.0.0.1", "-port", str(mapper)])
        base.wait_for(lambda: _connects(mapper), "epmd")
        self.url = f"rabbit://guest:guest@127.0.0.1:{self._port}/"

    def launch(self) -> subprocess.Popen[bytes]:
        return self.popen([_PROGRAMS / "rabbitmq-server"], env=self._env)

    def _ready(self) -> bool:
        """Return whether AMQP's greeting is answered and the management plugin, if used, accepts connections."""
        if self._managed and not _connects(self._management):
            return False
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as client:
                client.sendall(b"AMQP\x00\x00\x09\x01")
                return client.recv(1) == b"\x01"
        except OSError:
            return False

    def control(self, *arguments: str) -> str:
        """Run ``rabbitmqctl`` and return its output."""
        return self._run([_PROGRAMS / "rabbitmqctl", "--quiet", *arguments], env=self._env)

    @contextlib.contextmanager
    def virtual_host(self, name: str | None = None) -> Iterator[str]:
        """Create a virtual host without queues, yield its URL, and remove it afterwards."""
        name = name or f"t{uuid.uuid4().hex}"
        self._manage("PUT", f"vhosts/{name}")
        self._manage("PUT", f"permissions/{name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        try:
            yield self.url + name
        finally:
            if self.process.poll() is None:  # a test may have left the server dead
                self._manage("DELETE", f"vhosts/{name}")

    def _manage(self, method: str, path: str, body: Any = None) -> None:
        """Send a request to the management plugin: milliseconds instead of a second with ``rabbitmqctl``."""
        connection = http.client.HTTPConnection("127.0.0.1", self._management, timeout=self.patience)
        headers = {"Authorization": f"Basic {b64encode(b'guest:guest').decode()}", "Content-Type": "application/json"}
        with contextlib.closing(connection):
            connection.request(method, f"/api/{path}", json.dumps(body or {}), headers)
            answer = connection.getresponse()
            if answer.status >= http.client.BAD_REQUEST:
                raise RuntimeError(f"{self.name}: {method} {path}: {answer.status} {answer.read().decode()}")


def _connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
