# SPDX-License-Identifier: Apache-2.0
"""The base class of clusters: servers of several nodes, each of which can be killed, frozen and cut off."""

import abc
import contextlib
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Mapping

from tests.servers import base, network


class NodeCluster(base.Server):
    """A server of several nodes in a private network. :attr:`url` leads to the cluster, not to a node."""

    size = 3
    """The number of nodes."""

    @classmethod
    def installed(cls) -> bool:
        return network.available()

    def prepare(self) -> None:
        self.network = network.Network(self.popen, self.size)
        self._nodes: list[subprocess.Popen[bytes] | None] = [None] * self.size

    @abc.abstractmethod
    def _launch_node(self, node: int) -> subprocess.Popen[bytes]:
        """Start the process of a node with :meth:`_popen_node`."""

    @abc.abstractmethod
    def node_ready(self, node: int) -> bool:
        """Return whether a node answers clients as a member of the cluster."""

    def start_node(self, node: int, *, wait: bool = True) -> None:
        """Start a node with its data; unless told otherwise, wait until it answers. One that runs stays as it is."""
        process = self._nodes[node]
        if process is None or process.poll() is not None:
            process = self._nodes[node] = self._launch_node(node)
        if wait:
            self.wait_for_node(node)

    def wait_for_node(self, node: int) -> None:
        """Wait until a node answers. Raises RuntimeError with the end of the log if it ends instead."""
        process = self._nodes[node]
        assert process
        deadline = time.monotonic() + self.patience
        while not self.node_ready(node):
            if process.poll() is not None:
                raise RuntimeError(f"{self.name}: node {node} ended with {process.returncode}: {self._log_end(node)}")
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self.name}: node {node} was not ready after {self.patience:g} s: {self._log_end(node)}"
                )
            time.sleep(0.1)

    def kill_node(self, node: int) -> None:
        """Kill all processes of a node at once."""
        self._signal_node(node, signal.SIGKILL)
        if process := self._nodes[node]:
            process.wait(self.patience)

    def freeze_node(self, node: int) -> None:
        """Stop the processes of a node with SIGSTOP: its connections stay, and nothing answers."""
        self._signal_node(node, signal.SIGSTOP)

    def thaw_node(self, node: int) -> None:
        """Let the processes of a node go on."""
        self._signal_node(node, signal.SIGCONT)

    def restore_node(self, node: int) -> None:
        """End the disturbance of a node, and wait until it answers again. It is started if it has ended meanwhile."""
        self.network.mend(node)
        self.thaw_node(node)
        deadline = time.monotonic() + self.patience
        while not self.node_ready(node):
            self.start_node(node, wait=False)
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: node {node} did not come back: {self._log_end(node)}")
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill all nodes at once."""
        for node in range(self.size):
            self._signal_node(node, signal.SIGKILL)
        for process in self._nodes:
            if process:
                process.wait(self.patience)

    def stop(self) -> None:
        """Shut down the nodes, the first one last."""
        for node in reversed(range(self.size)):
            self._signal_node(node, self.stop_signal)
            if process := self._nodes[node]:
                process.wait(self.patience)

    def _node_log(self, node: int) -> pathlib.Path:
        """Return the file to which a node writes its log."""
        return self.folder / "log"

    def _log_end(self, node: int | None = None) -> str:
        """Return the end of the log of a node that has one of its own, or of the common log."""
        log = self.folder / "log" if node is None else self._node_log(node)
        return log.read_text(errors="replace").strip()[-2000:] if log.exists() else "(the log is empty)"

    def launch(self) -> subprocess.Popen[bytes]:
        raise NotImplementedError("a cluster starts node by node")

    def _ready(self) -> bool:
        return all(self.node_ready(node) for node in range(self.size))

    def _popen_node(
        self, node: int, command: list[str | pathlib.Path], env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        return self.popen(self.network.command(node, command), env=env)

    def _signal_node(self, node: int, number: signal.Signals) -> None:
        process = self._nodes[node]
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
