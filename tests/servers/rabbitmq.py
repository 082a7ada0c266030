# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import uuid
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from tests.servers import base

_PROGRAMS = pathlib.Path("/usr/lib/rabbitmq/bin")
"""Where the programs themselves are; those on PATH insist on the service's account."""

_CONFIGURATION = """\
loopback_users = none
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 50MB
load_definitions = {definitions}
"""
_PREPARED = 24
"""Virtual hosts made at the first start, where one costs a quarter of a second. rabbitmqctl needs many for each."""


class RabbitMQ(base.Server):
    """RabbitMQ on free ports of 127.0.0.1, with a port mapper (epmd) of its own."""

    name = "RabbitMQ"
    packages = "rabbitmq-server"
    end_signal = signal.SIGKILL  # nothing of it is outside the folder

    @classmethod
    def installed(cls) -> bool:
        return (_PROGRAMS / "rabbitmq-server").exists() and base.find("epmd") is not None

    def __init__(self, *, durable: bool = False, virtual_hosts: int = _PREPARED) -> None:
        """``virtual_hosts`` are made at the first start, for :meth:`virtual_host`."""
        super().__init__(durable=durable)
        self._fresh = [f"prepared{number}" for number in range(virtual_hosts)]

    def _prepare(self) -> None:
        self._port, mapper, distribution = base.free_port(), base.free_port(), base.free_port()
        (self.folder / "plugins").write_text("[].\n")
        definitions = self.folder / "definitions.json"
        definitions.write_text(json.dumps(_definitions(["/", *self._fresh])))
        (self.folder / "rabbitmq.conf").write_text(_CONFIGURATION.format(definitions=definitions))
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
            "RUNNING_UNDER_SYSTEMD": "true",  # makes the script become the server rather than its parent
        }
        epmd = base.find("epmd")
        assert epmd
        # Were it not there first, the server would start one that outlives it.
        self._popen([epmd, "-address", "127.0.0.1", "-port", str(mapper)])
        base.wait_for(lambda: _connects(mapper), "epmd")
        self.url = f"rabbit://guest:guest@127.0.0.1:{self._port}/"

    def _launch(self) -> subprocess.Popen[bytes]:
        return self._popen([_PROGRAMS / "rabbitmq-server"], env=self._env)

    def _ready(self) -> bool:
        """It answers AMQP's greeting (a port that merely accepts is not enough)."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as client:
                client.sendall(b"AMQP\x00\x00\x09\x01")
                return client.recv(1) == b"\x01"
        except OSError:
            return False

    def control(self, *arguments: str) -> str:
        """Run ``rabbitmqctl`` and return what it wrote."""
        return self._run([_PROGRAMS / "rabbitmqctl", "--quiet", *arguments], env=self._env)

    @contextlib.contextmanager
    def virtual_host(self) -> Iterator[str]:
        """Give the URL of a virtual host without any queue, which nobody else is given."""
        if self._fresh:
            yield self.url + self._fresh.pop()
            return
        name = f"t{uuid.uuid4().hex}"
        self.control("add_vhost", name)
        self.control("set_permissions", "--vhost", name, "guest", ".*", ".*", ".*")
        try:
            yield self.url + name
        finally:
            if self.process.poll() is None:  # a test may have left the server dead
                self.control("delete_vhost", name)


def _definitions(virtual_hosts: Sequence[str]) -> dict[str, Any]:
    """Return what the server has from its first start on; where there are definitions it adds no defaults."""
    everything = {"user": "guest", "configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
        "vhosts": [{"name": name} for name in virtual_hosts],
        "permissions": [{"vhost": name, **everything} for name in virtual_hosts],
    }


def _connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
