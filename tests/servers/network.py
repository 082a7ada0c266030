# SPDX-License-Identifier: Apache-2.0
"""Private networks: a network namespace for each node of a cluster, which can be cut off from the others.

A namespace exists as long as the process that holds it, and its interfaces disappear with it. So a network leaves
nothing in the system, even if the tests are killed.
"""

import os
import pathlib
import random
import subprocess
from collections.abc import Callable, Sequence

from tests.servers import base

#: Starts a program of a server, whose watcher ends it.
Start = Callable[[Sequence[str | pathlib.Path]], "subprocess.Popen[bytes]"]

#: The first two numbers of the addresses, of a range for benchmarks (RFC 2544).
_PREFIX = "198.18"


def available() -> bool:
    """Return whether this process may create network namespaces."""
    if os.geteuid() != 0 or not all((base.find("ip"), base.find("nsenter"), base.find("unshare"))):
        return False
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


class Network:
    """A network of ``count`` nodes, whose ``addresses`` this machine can reach. It has ``own_address`` there.

    A namespace of its own holds the switch to which all nodes and this machine are connected.
    """

    def __init__(self, start: Start, count: int) -> None:
        """``start`` starts the processes that hold the namespaces."""
        used = subprocess.run(["ip", "-4", "-o", "address"], capture_output=True, text=True, check=True).stdout
        number = random.choice([number for number in range(1, 255) if f" {_PREFIX}.{number}." not in used])
        self.addresses = [f"{_PREFIX}.{number}.{node + 1}" for node in range(count)]
        self.own_address = f"{_PREFIX}.{number}.254"
        self._holders = [start(["unshare", "--net", "sleep", "infinity"]) for _ in range(count + 1)]
        switch = self._holders[-1]
        base.wait_for(lambda: all(_own_network(holder) for holder in self._holders), "the network namespaces")
        _in(switch, "ip", "link", "add", "switch", "type", "bridge")
        _in(switch, "ip", "link", "set", "switch", "up")
        here = f"tng{switch.pid}"
        _run("ip", "link", "add", here, "type", "veth", "peer", "name", "here", "netns", str(switch.pid))
        _run("ip", "address", "add", f"{self.own_address}/24", "dev", here)
        _run("ip", "link", "set", here, "up")
        _in(switch, "ip", "link", "set", "here", "master", "switch", "up")
        for node, (holder, address) in enumerate(zip(self._holders, self.addresses, strict=False)):
            pair = ("type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
            _in(switch, "ip", "link", "add", f"node{node}", *pair)
            _in(switch, "ip", "link", "set", f"node{node}", "master", "switch", "up")
            _in(holder, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            _in(holder, "ip", "link", "set", "lo", "up")
            _in(holder, "ip", "link", "set", "eth0", "up")

    def command(self, node: int, command: Sequence[str | pathlib.Path]) -> list[str | pathlib.Path]:
        """Return the command that runs ``command`` in the namespace of a node."""
        return ["nsenter", f"--net=/proc/{self._holders[node].pid}/ns/net", *command]

    def cut(self, node: int) -> None:
        """Drop all packets between a node and the other nodes. This machine still reaches it."""
        for peer in self._peers(node):
            _in(self._holders[node], "ip", "route", "replace", "blackhole", f"{peer}/32")

    def mend(self, node: int) -> None:
        """Undo :meth:`cut`."""
        for peer in self._peers(node):
            _in(self._holders[node], "ip", "route", "delete", "blackhole", f"{peer}/32", check=False)

    def _peers(self, node: int) -> list[str]:
        return [address for number, address in enumerate(self.addresses) if number != node]


def _own_network(holder: "subprocess.Popen[bytes]") -> bool:
    """Return whether the process has left the namespace of this process."""
    return os.readlink(f"/proc/{holder.pid}/ns/net") != os.readlink("/proc/self/ns/net")


def _in(holder: "subprocess.Popen[bytes]", *command: str, check: bool = True) -> None:
    """Run a command in the namespace that the process holds."""
    _run("nsenter", f"--net=/proc/{holder.pid}/ns/net", *command, check=check)


def _run(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
