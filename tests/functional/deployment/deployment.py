# SPDX-License-Identifier: Apache-2.0
"""A small Tonnage as an operator runs it: real processes, real files, a private port and a private folder."""

import contextlib
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import amqp
import kombu
import psutil
import sqlalchemy as sa

from tests import suites
from tests.functional.deployment.configuration import Addresses, Credentials, Options, render, write_variant
from tests.functional.deployment.processes import CommandResult, Process, run_program
from tests.functional.deployment.rest_client import RestClient
from tests.servers import base, ledger_schema
from tests.servers.base import wait_for
from tests.unit.rpc import bus
from tonnage.ledger.db import database
from tonnage.rpc import transport
from tonnage.rpc.clients.scheduler_client import SchedulerClient

_GIB = 2**30
_WATCHER = pathlib.Path(base.__file__).with_name("watcher.py")
#: The processes of a deployment with a message bus, in the order of their start: the agent needs a scheduler.
_DAEMONS = ("scheduler", "api", "agent")
_STANDALONE = ("standalone",)
#: Seconds until a command must end by itself, or a killed process must be gone.
_TIMEOUT = 90.0
_host_numbers = itertools.count(1)


class Deployment:
    """The processes of one Tonnage, with a folder of their own. Use it as a context manager.

    With ``addresses`` of a database and a message bus these are a scheduler, an API and an agent, otherwise
    ``tonnage-standalone``. ``backends`` maps the name of each backend to its options; its pool has the same name.
    The fork server runs them; with ``environment``, even an empty one, they are programs of their own, with these
    additions to their environment. With ``credentials`` every request needs a token. ``sections``
    are more sections of the configuration file, and ``defaults`` are options of ``[DEFAULT]``.
    """

    def __init__(
        self,
        addresses: Addresses,
        backends: Mapping[str, Options],
        environment: Mapping[str, str] | None = None,
        credentials: Credentials | None = None,
        sections: Mapping[str, Options] | None = None,
        host: str | None = None,
        **defaults: Any,
    ) -> None:
        self._addresses = addresses
        self._backends = backends
        self._environment = environment
        self._credentials = credentials
        self._sections = sections or {}
        self._defaults = defaults
        self._expected_to_run: set[str] = set()
        self.host = host or f"box{next(_host_numbers)}"
        self.port = base.free_port()

    def __enter__(self) -> Self:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tonnage-"))
        self.database_url = self._addresses.database or f"sqlite:///{self.folder / 'tonnage.sqlite'}"
        self.conf = self.folder / "tonnage.conf"
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", _WATCHER, self.folder], stdin=subprocess.PIPE, cwd="/", start_new_session=True
        )
        try:
            self._require_disk_space()
            self.conf.write_text(self._configuration())
            self.processes = {name: Process(name, self._conf_of(name)) for name in self._names}
            self.rest = RestClient(f"http://127.0.0.1:{self.port}", self._credentials)
            self._engine = database.create_engine(self.database_url)
            ledger_schema.create(self._engine)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest.close()
        self._engine.dispose()
        self.kill()
        self._close()

    @property
    def distributed(self) -> bool:
        """Whether the deployment has several processes that communicate over a message bus."""
        return self._addresses.bus is not None

    def pool(self, backend: str) -> str:
        """Return the full name of a backend's pool."""
        return f"{self.host}@{backend}#{backend}"

    def launch(self, *names: str) -> None:
        """Start some processes without waiting for them."""
        for name in names:
            self._watch(self.processes[name].start(self._environment))
            self._expected_to_run.add(name)

    def start(self, *names: str) -> Self:
        """Start all or some processes, and wait until everything that runs is ready."""
        epochs = self._epochs()
        for name in names or self._names:
            if name == "agent":
                # Without a queue the agent's first message is lost, and it sends the next after its response timeout.
                wait_for(self._has_queue, "the queue of the schedulers exists")
            self.launch(name)
        runs_agent = not names or not {"agent", "standalone"}.isdisjoint(names)
        wait_for(lambda: self._ready(epochs if runs_agent else None), "Tonnage is ready")
        return self

    def launch_another_scheduler(self, database_url: sa.URL | None = None, *, wait: bool = True) -> Process:
        """Start a second scheduler, on host ``another``, and unless told otherwise wait until it is ready.

        ``database_url`` is another way to the database.
        """
        folder = self.folder / "another"
        folder.mkdir()
        conf = folder / "tonnage.conf"
        text = self.conf.read_text().replace(f"host = {self.host}\n", "host = another\n")
        if database_url is not None:
            text = text.replace(self.database_url, database_url.render_as_string(hide_password=False))
        conf.write_text(text)
        another = self.processes["another"] = Process("scheduler", conf)
        self._watch(another.start())
        if wait:
            wait_for(lambda: "Scheduler is ready" in another.log.read_text(), "the second scheduler is ready")
        return another

    def stop(self, number: signal.Signals = signal.SIGTERM, *, whole_group: bool = False) -> dict[str, int]:
        """Send a burst of a signal to all processes, wait for their end, and return their exit codes."""
        self._expected_to_run.clear()
        for process in self.processes.values():
            process.request_stop(number, whole_group=whole_group)
        return {name: process.wait() for name, process in self.processes.items()}

    def end(self, name: str) -> None:
        """End one process with a burst of SIGTERM; it must end cleanly."""
        self._expected_to_run.discard(name)
        self.processes[name].request_stop()
        assert self.processes[name].wait() == 0, self.logs()

    def kill(self, *names: str) -> None:
        """Kill all or some processes, with their workers."""
        self._expected_to_run -= set(names or self.processes)
        processes = [self.processes[name] for name in names] or list(self.processes.values())
        killed = [one for process in processes for one in process.tree()]
        for one in killed:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(killed, timeout=_TIMEOUT)
        for process in processes:
            process.reap()

    def run_command(self, program: str, conf: pathlib.Path | None = None, *arguments: str) -> CommandResult:
        """Run ``tonnage-<program>``, which must end by itself."""
        return run_program(
            f"tonnage-{program}", "--config-file", conf or self.conf, *arguments, environment=self._environment
        )

    def conf_with(self, **changes: Options) -> pathlib.Path:
        """Return a copy of the configuration file with other values of some options of some sections."""
        variant = self.folder / "variant.conf"
        write_variant(self.conf, variant, changes)
        return variant

    def logs(self) -> str:
        """Return the end of the log of each process, with the exit codes of those that have ended."""
        return "\n".join(
            f"== {process.log.name}{process.ending}\n{process.log.read_text(errors='replace')[-20000:]}"
            for process in self.processes.values()
            if process.log.exists()
        )

    @contextlib.contextmanager
    def rpc(self) -> Iterator[SchedulerClient]:
        """A client of the schedulers, if there is a message bus."""
        assert self._addresses.bus is not None
        with bus.memory_transport(response_timeout=30, url=self._addresses.bus) as connected:
            yield SchedulerClient(connected)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds in the ledger."""
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]

    def write(self, *statements: str) -> None:
        """Change the ledger by SQL."""
        with self._engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def sql_value(self, statement: str) -> Any:
        """Return the only value that a query finds in the ledger."""
        ((value,),) = self.sql(statement)
        return value

    def use_database(self, url: str) -> None:
        """Make the processes, from their next start on, and this object use another database."""
        self.conf.write_text(self.conf.read_text().replace(self.database_url, url))
        self._engine.dispose()
        self.database_url, self._engine = url, database.create_engine(url)

    def close_connections(self) -> None:
        """Close this object's own connections to the database, which may have restarted."""
        self._engine.dispose()

    def path(self, backend: str) -> pathlib.Path:
        """Return the folder of a backend's volumes."""
        return self.folder / "volumes" / backend

    def files(self, backend: str) -> dict[str, os.stat_result]:
        """Return the status of each file of a volume by its name. Links, such as the folder's mark, are left out."""
        folder = self.path(backend)
        found = {}
        for file in folder.iterdir() if folder.exists() else ():
            with contextlib.suppress(FileNotFoundError):  # the file may be removed meanwhile
                if file.is_file():
                    found[file.name] = file.stat()
        return found

    def check_counters(self) -> None:
        """Assert that all counters equal the sums of the claims, at any moment: one statement reads a row's figures."""
        for name, *counters, live, flying, physical in self.sql(
            "SELECT p.name, p.allocated_capacity_gb, p.in_flight_gb, p.in_flight_physical_gb,"
            " (SELECT COALESCE(SUM(size_gb), 0) FROM claims c"
            "  WHERE c.pool_id = p.id AND c.state IN ('pending', 'confirmed')),"
            " (SELECT COALESCE(SUM(size_gb), 0) FROM claims c WHERE c.pool_id = p.id AND NOT c.contained),"
            " (SELECT COALESCE(SUM(physical_gb), 0) FROM claims c WHERE c.pool_id = p.id AND NOT c.contained)"
            " FROM pools p"
        ):
            assert [int(one) for one in counters] == [int(live), int(flying), int(physical)], name
        for name, allocated, pools in self.sql(
            "SELECT b.name, b.allocated_capacity_gb,"
            " (SELECT COALESCE(SUM(p.allocated_capacity_gb), 0) FROM pools p WHERE p.backend_id = b.id)"
            " FROM backends b"
        ):
            assert int(allocated) == int(pools), name

    def check_at_rest(self) -> None:
        """Wait for the end of all operations; then the ledger, the files and get_pools must agree to the GiB."""
        wait_for(self._at_rest, "all operations have ended")
        self.check_counters()
        for backend in self._backends:
            pool = self.pool(backend)
            sizes = dict(
                self.sql(
                    "SELECT v.id, v.size_gb FROM volumes v JOIN pools p ON p.id = v.pool_id"
                    f" WHERE p.name = '{pool}' AND v.status = 'available'"
                )
            )
            assert {name: file.st_size for name, file in self.files(backend).items()} == {
                name: size * _GIB for name, size in sizes.items()
            }
            allocated = sum(sizes.values())
            assert self.sql_value(f"SELECT allocated_capacity_gb FROM pools WHERE name = '{pool}'") == allocated
            # A deleted volume counts as provisioned until the next report.
            wait_for(
                lambda: self._allocated_and_provisioned(pool) == (allocated, allocated),  # noqa: B023
                f"get_pools shows {allocated} GiB in {pool}",
            )

    @property
    def _names(self) -> tuple[str, ...]:
        return _DAEMONS if self.distributed else _STANDALONE

    def _allocated_and_provisioned(self, pool: str) -> tuple[float, float]:
        capabilities = self.rest.pools()[pool]
        return capabilities["allocated_capacity_gb"], capabilities["provisioned_capacity_gb"]

    def _at_rest(self) -> bool:
        moving = "SELECT COUNT(*) FROM volumes WHERE status NOT IN ('available', 'error')"
        flying = "SELECT COUNT(*) FROM claims WHERE NOT contained OR state = 'pending'"
        return self.sql_value(moving) == 0 and self.sql_value(flying) == 0

    def _ready(self, epochs: Mapping[str, int] | None) -> bool:
        """Return whether the API answers and knows all pools.

        If ``epochs`` are given, each backend must also have reported in a later epoch.
        """
        for name, process in self.processes.items():
            assert process.running or name not in self._expected_to_run, f"{name} has ended\n{self.logs()}"
        if epochs is not None:
            joined = dict(self.sql("SELECT name, epoch FROM backends WHERE report_seq > 0"))
            if any(joined.get(name, 0) <= epoch for name, epoch in epochs.items()):
                return False
        if not self.rest.is_healthy():
            return False
        pools = self.rest.request("GET", "scheduler-stats/get_pools")
        return pools.status_code == 200 and len(pools.json()["pools"]) >= len(self._backends)

    def _has_queue(self) -> bool:
        assert self._addresses.bus is not None
        with kombu.Connection(
            self._addresses.bus.partition(",")[0].replace("rabbit:", "amqp:"), connect_timeout=60
        ) as connection:
            try:
                connection.default_channel.queue_declare(transport.TOPIC_SCHEDULER, passive=True)
            except amqp.exceptions.NotFound:
                return False
        return True

    def _epochs(self) -> dict[str, int]:
        names = [f"{self.host}@{backend}" for backend in self._backends]
        return dict.fromkeys(names, 0) | dict(self.sql("SELECT name, epoch FROM backends"))

    def _configuration(self) -> str:
        defaults = {
            "host": self.host,
            "state_path": self.folder,
            "enabled_backends": ", ".join(self._backends),
            "backend_stats_polling_interval": 1,
            "service_down_time": 120,
            "claim_lease": 5,
            "osapi_volume_listen_port": self.port,
            "transport_url": self._addresses.bus or "kombu+memory://",
            "rpc_response_timeout": 20,
            "quota_volumes": -1,
            "quota_gigabytes": -1,
            **self._defaults,
        }
        sections: dict[str, Options] = {"DEFAULT": defaults, "database": {"connection": self.database_url}}
        if not self.distributed:
            sections["oslo_messaging_rabbit"] = {"heartbeat_timeout_threshold": 0}
        if self._credentials is not None:
            sections["DEFAULT"] = {**defaults, "auth_strategy": "keystone"}
            sections["keystone_authtoken"] = self._credentials.options
        for name, options in self._backends.items():
            sections[name] = {
                "volume_driver": "filesystem",
                "volume_backend_name": name,
                "filesystem_path": self.path(name),
                **options,
            }
        return render({**sections, **self._sections})

    def _conf_of(self, name: str) -> pathlib.Path:
        """Return the configuration file of a process. The agent's first message, if lost, is soon sent again."""
        if name != "agent":
            return self.conf
        own = self.folder / "agent.conf"
        own.write_text(self.conf.read_text().replace("rpc_response_timeout = 20", "rpc_response_timeout = 5"))
        return own

    def _require_disk_space(self) -> None:
        """Skip the test on a small disk: the free space bounds the capacity of each pool and changes all figures."""
        limits = [int(options.get("filesystem_size_limit_gb", 0)) for options in self._backends.values()]
        needed, free = max(limits, default=0) + 2, shutil.disk_usage(self.folder).free // _GIB
        if free < needed:
            suites.cannot_run("end-to-end", f"{free} GiB free below {self.folder.parent}, {needed} needed; set TMPDIR")

    def _watch(self, pid: int) -> None:
        """Make the watcher kill a process when this process ends for any reason."""
        assert self._watcher.stdin
        self._watcher.stdin.write(b"%d %d\n" % (pid, signal.SIGKILL))
        self._watcher.stdin.flush()

    def _close(self) -> None:
        assert self._watcher.stdin
        self._watcher.stdin.close()
        self._watcher.wait()
