# SPDX-License-Identifier: Apache-2.0
"""An installation of Tonnage: schedulers and agents as processes, on a real database and a real message bus."""

import pathlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
import throughput_machine as machine

COMMANDS = pathlib.Path(sys.executable).parent

#: Size of a pool in GiB, so large that no pool is ever full.
_ROOMY = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of a deployment. ``batch`` is the largest number of requests in one transaction."""

    schedulers: int = 1
    backends: int = 10
    pools: int = 1000
    batch: int = 64

    def spread(self) -> dict[str, int]:
        """Return each backend with the number of its pools."""
        each, rest = divmod(self.pools, self.backends)
        return {f"b{number + 1}": each + (number < rest) for number in range(self.backends)}


class Tonnage(machine.Deployment):
    """A deployment. Inside its context the schedulers have a report of every pool."""

    def __init__(
        self,
        database: str,
        bus: str,
        shape: Shape,
        pool_size_gb: int = _ROOMY,
        more: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Store the parameters. ``more`` maps sections of the agents' configuration to further options."""
        super().__init__(database)
        self.shape = shape
        self._database, self._bus = database, bus
        self._pool_size_gb = pool_size_gb
        self._more = more

    def _begin(self) -> None:
        manage = COMMANDS / "tonnage-manage"
        self._shop.run("manage", manage, "--config-file", self._conf("manage", {}), "db", "sync")
        self.schedulers = [self.start_scheduler(number + 1) for number in range(self.shape.schedulers)]
        # A scheduler that starts later would miss the first reports and wait for the next ones.
        self.wait_until("SELECT COUNT(*) FROM services", self.shape.schedulers, "the schedulers to start")
        self.agents = self.start_agents()
        self.wait_until("SELECT COUNT(*) FROM pools", self.shape.pools, "every pool to be reported")

    @property
    def folder(self) -> pathlib.Path:
        """The folder of the processes, which exists inside the context."""
        return self._shop.folder

    def start_scheduler(self, number: int) -> "subprocess.Popen[str]":
        """Start a scheduler and return at once."""
        host = f"scheduler{number}"
        conf = self._conf(host, {"host": host, "scheduler_batch_size": self.shape.batch})
        return self._shop.start(host, COMMANDS / "tonnage-scheduler", "--config-file", conf)

    def start_agents(self) -> "subprocess.Popen[str]":
        """Start the agents, a process for each backend, and return at once."""
        sections = {
            name: {
                "volume_driver": "memory",
                "memory_pools": pools,
                "memory_pool_size_gb": self._pool_size_gb,
                "memory_provisioning": "thin",
                **self._more.get(name, {}),
            }
            for name, pools in self.shape.spread().items()
        }
        defaults = {"enabled_backends": ", ".join(sections)}
        conf = self._conf("agents", defaults, {**self._more, **sections})
        return self._shop.start("agents", COMMANDS / "tonnage-agent", "--config-file", conf)

    def start_agent(
        self, name: str, sections: Mapping[str, Mapping[str, Any]], variables: Mapping[str, str]
    ) -> "subprocess.Popen[str]":
        """Start an agent with a backend for each section, and return at once. ``variables`` are of the environment."""
        conf = self._conf(name, {"enabled_backends": ", ".join(sections)}, sections)
        return self._shop.start(name, COMMANDS / "tonnage-agent", "--config-file", conf, variables=variables)

    def stop(self, process: "subprocess.Popen[str]") -> None:
        """Terminate a process gracefully and wait for its end."""
        self._shop.stop(process)

    def client(self, in_flight: int) -> "subprocess.Popen[str]":
        """Start the client process and wait until it is ready."""
        script = pathlib.Path(__file__).with_name("throughput_client.py")
        conf = self._conf("client", {})
        process = self._shop.start(
            "client", sys.executable, script, "--config-file", conf, "--in-flight", str(in_flight), talks=True
        )
        machine.ask(process, "")
        return process

    def groups(self) -> dict[str, list[int]]:
        """Return the process ids of the schedulers and of the agents."""
        return {"scheduler": [process.pid for process in self.schedulers], "agents": [self.agents.pid]}

    def connect(self) -> sa.Connection:
        """Return a connection to the ledger with automatic commits."""
        return self._engine.connect()

    def number(self, statement: str) -> int:
        """Return the number that a statement selects from the ledger, 0 for null."""
        with self.connect() as connection:
            return int(connection.exec_driver_sql(statement).scalar() or 0)

    def start_api(self, port: int) -> "subprocess.Popen[str]":
        """Start the REST API and wait until it listens."""
        conf = self._conf("api", {"osapi_volume_listen_port": port})
        process = self._shop.start("api", COMMANDS / "tonnage-api", "--config-file", conf)
        self._shop.until(lambda: machine.listens(port), "tonnage-api to listen")
        return process

    def placed(self) -> int:
        """Return the number of volumes with a pool in the ledger."""
        return self.number("SELECT COUNT(*) FROM volumes WHERE pool_id IS NOT NULL")

    def drift(self) -> int:
        """Return the number of pools whose allocated capacity differs from the sum of their claims."""
        return self.number(
            "SELECT COUNT(*) FROM pools p WHERE p.allocated_capacity_gb <>"
            " (SELECT COALESCE(SUM(c.size_gb), 0) FROM claims c WHERE c.pool_id = p.id)"
        )

    def wait_until(self, statement: str, number: int, event: str, pause: float = 0.05, seconds: float = 600.0) -> None:
        """Wait until a statement returns the number. Raises RuntimeError with ``event`` after so many seconds.

        ``pause`` is the time between two statements, in seconds.
        """
        self._shop.until(lambda: self.number(statement) == number, event, seconds=seconds, pause=pause)

    def wait_until_settled(self) -> None:
        """Wait until the agents have sent the outcome of every operation."""
        self.wait_until(
            "SELECT COUNT(*) FROM claims WHERE state = 'pending'", 0, "the agents to answer for all volumes"
        )

    def log(self, name: str) -> str:
        """Return a process's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _conf(
        self,
        name: str,
        defaults: Mapping[str, Any],
        sections: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> pathlib.Path:
        everything: dict[str, Mapping[str, Any]] = {
            "DEFAULT": {
                "transport_url": self._bus,
                "host": name,
                "state_path": self.folder / "state",
                "quota_volumes": -1,
                "quota_gigabytes": -1,
                **defaults,
            },
            "database": {"connection": self._database},
            **sections,
        }
        file = self.folder / f"{name}.conf"
        file.write_text(
            "\n".join(
                f"[{section}]\n" + "".join(f"{option} = {value}\n" for option, value in options.items())
                for section, options in everything.items()
            )
        )
        return file
