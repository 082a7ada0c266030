# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ cluster of three nodes."""

import os
import pathlib
import signal
import socket
import subprocess

from tests.servers import base, nodes

_PROGRAMS = pathlib.Path("/usr/lib/rabbitmq/bin")

#: A minority stops, so that no two parts of a cluster go on. A node that does not answer is noticed after net_ticktime.
_CONFIGURATION = """\
loopback_users = none
vm_memory_high_watermark.absolute = 400MB
disk_free_limit.absolute = 50MB
cluster_partition_handling = pause_minority
cluster_formation.peer_discovery_backend = classic_config
"""
_TICK_SECONDS = 10


class RabbitMQCluster(nodes.NodeCluster):
    """Three RabbitMQ nodes on addresses of their own, which are all in :attr:`url`.

    A node is cut off from the others in its network namespace; clients still reach it.
    """

    name = "RabbitMQ cluster"
    packages = "rabbitmq-server iproute2"
    end_signal = signal.SIGKILL  # all of its files are in the folder

    @classmethod
    def installed(cls) -> bool:
        return super().installed() and (_PROGRAMS / "rabbitmq-server").exists() and base.find("epmd") is not None

    def prepare(self) -> None:
        super().prepare()
        epmd = base.find("epmd")
        assert epmd
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text("tonnage")
        cookie.chmod(0o400)
        (self.folder / "plugins").write_text("[].\n")
        members = "".join(
            f"cluster_formation.classic_config.nodes.{node + 1} = rabbit@{address}\n"
            for node, address in enumerate(self.network.addresses)
        )
        (self.folder / "rabbitmq.conf").write_text(_CONFIGURATION + members)
        for node in range(self.size):
            # Without a running port mapper, the server would start one that survives the server.
            self._popen_node(node, [epmd], self._env(node))
        self.url = f"rabbit://{','.join(f'guest:guest@{address}:5672' for address in self.network.addresses)}/"

    def start(self) -> None:
        """Start the nodes that do not run, and wait for all. At the first start the others join the first one."""
        if not (self.folder / "data0").exists():
            self.start_node(0)
        for node in range(self.size):
            self.start_node(node, wait=False)
        for node in range(self.size):
            self.wait_for_node(node)

    def node_ready(self, node: int) -> bool:
        """Return whether AMQP's greeting is answered: a node without a majority does not listen."""
        try:
            with socket.create_connection((self.network.addresses[node], 5672), timeout=2) as client:
                client.sendall(b"AMQP\x00\x00\x09\x01")
                client.settimeout(2)
                return client.recv(1) == b"\x01"
        except OSError:
            return False

    def control(self, node: int, *arguments: str) -> str:
        """Run ``rabbitmqctl`` for a node and return its output."""
        command = self.network.command(node, [_PROGRAMS / "rabbitmqctl", "--quiet", *arguments])
        return self._run(command, env=self._env(node))

    def _launch_node(self, node: int) -> "subprocess.Popen[bytes]":
        return self._popen_node(node, [_PROGRAMS / "rabbitmq-server"], self._env(node))

    def _env(self, node: int) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_LOG_BASE": str(self.folder / f"logs{node}"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / f"data{node}"),
            "RABBITMQ_NODENAME": f"rabbit@{self.network.addresses[node]}",
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_PID_FILE": str(self.folder / f"pid{node}"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel net_ticktime {_TICK_SECONDS} +S 1",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script executes the server instead of becoming its parent
        }
