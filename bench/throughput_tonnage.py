# SPDX-License-Identifier: Apache-2.0
"""Tonnage as it is installed: schedulers and agents as processes, on a real database and a real message bus."""

import pathlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from typing import Self

import sqlalchemy as sa
import throughput_machine as machine

COMMANDS = pathlib.Path(sys.executable).parent

#: GiB, so many that no pool is ever full.
_ROOMY = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a deployment is. ``batch`` is how many requests may share a transaction."""

    schedulers: int = 1
    backends: int = 10
    pools: int = 1000
    batch: int = 64


class Tonnage:
    """A deployment; inside its context the schedulers know every pool."""

    def __init__(self, database: str, bus: str, shape: Shape) -> None:
        self.shape = shape
        self._database, self._bus = database, bus
        self._shop = machine.Workshop()
        self._engine = sa.create_engine(database, isolation_level="AUTOCOMMIT")

    def __enter__(self) -> Self:
        shop = self._shop.__enter__()
        try:
            self._start(shop)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.dispose()
        self._shop.__exit__()

    def client(self, in_flight: int) -> "subprocess.Popen[str]":
        """Start the client process; it is ready once it has said so."""
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

    def number(self, statement: str) -> int:
        """Return the one number that a statement asks the ledger for."""
        with self._engine.connect() as connection:
            return int(connection.exec_driver_sql(statement).scalar() or 0)

    def wait_until_settled(self) -> None:
        """Wait until the agents have answered for every volume."""
        self._shop.until(
            lambda: self.number("SELECT COUNT(*) FROM claims WHERE state = 'pending'") == 0,
            "the agents to answer for all volumes",
            seconds=600,
        )

    def _start(self, shop: machine.Workshop) -> None:
        manage = self._conf("manage", {})
        shop.run("manage", COMMANDS / "tonnage-manage", "--config-file", manage, "db", "sync")
        options = {"scheduler_batch_size": self.shape.batch}
        self.schedulers = [
            self._daemon("scheduler", f"scheduler{number}", {"host": f"scheduler{number}", **options})
            for number in range(1, self.shape.schedulers + 1)
        ]
        # Those that start later would miss the first reports and have to wait for the next.
        shop.until(
            lambda: self.number("SELECT COUNT(*) FROM services") == self.shape.schedulers, "the schedulers to start"
        )
        backends = [f"b{number}" for number in range(1, self.shape.backends + 1)]
        each, rest = divmod(self.shape.pools, len(backends))
        sections = {
            name: {
                "volume_driver": "memory",
                "memory_pools": each + (number < rest),
                "memory_pool_size_gb": _ROOMY,
                "memory_provisioning": "thin",
            }
            for number, name in enumerate(backends)
        }
        self.agents = self._daemon("agent", "agents", {"enabled_backends": ", ".join(backends)}, sections)
        shop.until(
            lambda: self.number("SELECT COUNT(*) FROM pools") == self.shape.pools, "every pool to be reported", 60
        )

    def _daemon(
        self, program: str, name: str, defaults: Mapping[str, Any], sections: Mapping[str, Mapping[str, Any]] = {}
    ) -> "subprocess.Popen[str]":
        return self._shop.start(
            name, COMMANDS / f"tonnage-{program}", "--config-file", self._conf(name, defaults, sections)
        )

    def _conf(
        self, name: str, defaults: Mapping[str, Any], sections: Mapping[str, Mapping[str, Any]] = {}
    ) -> pathlib.Path:
        everything: dict[str, Mapping[str, Any]] = {
            "DEFAULT": {
                "transport_url": self._bus,
                "host": name,
                "state_path": self._shop.folder / "state",
                **defaults,
            },
            "database": {"connection": self._database},
            **sections,
        }
        file = self._shop.folder / f"{name}.conf"
        file.write_text(
            "\n".join(
                f"[{section}]\n" + "".join(f"{option} = {value}\n" for option, value in options.items())
                for section, options in everything.items()
            )
        )
        return file
