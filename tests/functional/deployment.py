# SPDX-License-Identifier: Apache-2.0
"""Tonnage as an operator runs it: real processes, real files, and what a test looks at from the outside."""

import configparser
import contextlib
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Self

import amqp
import kombu
import psutil
import requests
from requests import adapters

from tests import suites
from tests.servers import base
from tests.unit.rpc import bus
from tonnage.ledger.db import database, schema
from tonnage.rpc import transport
from tonnage.rpc.scheduler_client import SchedulerClient

GIB = 2**30
#: From this version on get_pools shows capacity factors.
FACTORS = "3.72"

_COMMANDS = pathlib.Path(sys.executable).parent
_WATCHER = pathlib.Path(base.__file__).with_name("watcher.py")
_STANDALONE = ("standalone",)
#: In the order in which they are started: the agent last, which waits for a scheduler.
_DAEMONS = ("scheduler", "api", "agent")
#: Seconds that anything may take on a machine that has other things to do as well.
_PATIENCE = 90.0
_hosts = itertools.count(1)

#: Option names and values.
Options = Mapping[str, Any]


def until(condition: Callable[[], Any], what: str, seconds: float = _PATIENCE) -> Any:
    """Return the condition's value once it is true; fails after a deadline, saying ``what`` did not come to pass."""
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds:g} s: {what}"
        # To look costs processor time that others need to bring it about, so what takes long is looked at less often.
        time.sleep(min(max(0.02, waited / 10), 0.2))
    return value


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the ledger and the message bus are; None stands for those of a single process."""

    database: str | None = None
    bus: str | None = None


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: a token for a project. ``options`` are those of ``[keystone_authtoken]``, to have it looked at."""

    options: Options
    token: str
    project_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended by itself."""

    code: int
    output: str
    error: str


class Process:
    """One Tonnage command, with all that it writes in a log."""

    def __init__(self, name: str, conf: pathlib.Path) -> None:
        self.log = conf.with_name(f"{name}.log")
        self._command = [_COMMANDS / f"tonnage-{name}", "--config-file", conf]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> int:
        """Start it and return its process id."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=None if environment is None else {**os.environ, **environment},
            )
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def ending(self) -> str:
        """How it ended, unless it runs."""
        return "" if self._process is None or self.running else f", ended with {self._process.returncode}"

    def send(self, number: signal.Signals, *, whole_group: bool = False) -> None:
        """Send it a signal, or, as a terminal does on Ctrl-C, to its workers as well."""
        assert self._process is not None
        (os.killpg if whole_group else os.kill)(self._process.pid, number)

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        assert self._process is not None
        return self._process.wait(_PATIENCE)

    def family(self) -> list[psutil.Process]:
        """Return it with its workers, itself first."""
        if not self.running:
            return []
        assert self._process is not None
        process = psutil.Process(self._process.pid)
        return [process, *process.children(recursive=True)]

    def reap(self) -> None:
        """Collect a process that was killed."""
        if self._process is not None:
            self._process.wait(_PATIENCE)


class Rest:
    """The REST API, used as a person with curl would; safe to use from many threads."""

    def __init__(self, url: str, asker: Asker | None = None) -> None:
        self.root, self._url = url, f"{url}/v3/{asker.project_id if asker else 'demo'}"
        self._session = requests.Session()
        if asker is not None:
            self._session.headers["X-Auth-Token"] = asker.token
        self._session.mount("http://", adapters.HTTPAdapter(pool_maxsize=64))

    def close(self) -> None:
        self._session.close()

    def get(self, path: str, version: str = "3.0", **query: Any) -> Any:
        """Return what is found there; fails if it cannot be had, be it that no scheduler answers for the third time."""
        for _ in range(3):
            answer = self.call("GET", path, version=version, params=query)
            if answer.status_code != 503 or "no scheduler answered" not in answer.text:
                break
        assert answer.status_code == 200, answer.text
        return answer.json()

    def call(self, method: str, path: str, body: Any = None, version: str = "3.0", **more: Any) -> requests.Response:
        """Send any request and return the answer, whatever it is."""
        headers = {"OpenStack-API-Version": f"volume {version}"}
        return self._session.request(
            method, f"{self._url}/{path}", json=body, headers=headers, timeout=_PATIENCE, **more
        )

    def healthy(self) -> bool:
        """Ask for the health."""
        try:
            return self._session.get(f"{self.root}/healthcheck", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def ask(self, size: int, kind: str | None = None) -> requests.Response:
        """Ask for a volume and return the answer, whatever it is."""
        return self.call("POST", "volumes", {"volume": {"size": size, "volume_type": kind}})

    def create(self, size: int, kind: str | None = None) -> str:
        """Ask for a volume, which must be accepted, and return its id."""
        answer = self.ask(size, kind)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["volume"]["id"])

    def refusal(self, size: int, kind: str | None = None) -> dict[str, Any]:
        """Ask for a volume, which must be refused, and return why."""
        answer = self.ask(size, kind)
        assert answer.status_code == 409, answer.text
        return dict(answer.json()["conflictingRequest"])

    def volume(self, volume_id: str) -> dict[str, Any]:
        return dict(self.get(f"volumes/{volume_id}")["volume"])

    def volumes(self) -> list[dict[str, Any]]:
        return list(self.get("volumes/detail")["volumes"])

    def made(self, volume_id: str) -> dict[str, Any]:
        """Wait until a volume is available and return it."""

        def settled() -> dict[str, Any] | None:
            volume = self.volume(volume_id)
            return None if volume["status"] in ("creating", "extending") else volume

        volume: dict[str, Any] = until(settled, f"volume {volume_id} is made")
        assert volume["status"] == "available", volume["status_reason"]
        return volume

    def extend(self, volume_id: str, size: int) -> requests.Response:
        return self.call("POST", f"volumes/{volume_id}/action", {"os-extend": {"new_size": size}})

    def delete(self, *volume_ids: str) -> None:
        """Have volumes deleted and wait until they are gone."""
        for volume_id in volume_ids:
            assert self.call("DELETE", f"volumes/{volume_id}").status_code == 202
        for volume_id in volume_ids:
            until(lambda: self.call("GET", f"volumes/{volume_id}").status_code == 404, f"{volume_id} is deleted")  # noqa: B023

    def new_type(self, name: str, **extra_specs: str) -> str:
        """Make a volume type, colons in its extra specs written as ``__``, and return its name."""
        specs = {key.replace("__", ":"): value for key, value in extra_specs.items()}
        answer = self.call("POST", "types", {"volume_type": {"name": name, "extra_specs": specs}})
        assert answer.status_code == 200, answer.text
        return name

    def pools(self) -> dict[str, dict[str, Any]]:
        """Return the capabilities of each pool."""
        found = self.get("scheduler-stats/get_pools", detail="true")["pools"]
        return {pool["name"]: pool["capabilities"] for pool in found}

    def headroom(self, pool: str, kind: str) -> int:
        """Return the largest thin or thick volume that the pool takes now."""
        found = self.get("scheduler-stats/get_pools", FACTORS, detail="true", name=pool)["pools"]
        return next(
            int(factors["maximum_volume_size"])
            for factors in found[0]["capacity_factors"]
            if factors["provisioned_type"] == kind
        )


class Deployment:
    """All processes of one Tonnage with a folder of their own. Use it as a context manager.

    ``backends`` are sections with the options that matter; a pool is called like its backend. With addresses it is a
    scheduler, an agent and an API, otherwise ``tonnage-standalone``. With an ``asker`` whoever asks has to say who he
    is, otherwise nobody.
    """

    #: What the database begins with.
    revision: ClassVar[str] = "head"

    def __init__(
        self,
        addresses: Addresses,
        backends: Mapping[str, Options],
        environment: Mapping[str, str] | None = None,
        asker: Asker | None = None,
        **defaults: Any,
    ) -> None:
        self._addresses = addresses
        self._asker = asker
        self._backends = backends
        self._environment = environment
        self._defaults = defaults
        self._meant_to_run: set[str] = set()
        self.host = f"box{next(_hosts)}"
        self.port = base.free_port()

    def __enter__(self) -> Self:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tonnage-"))
        self.url = self._addresses.database or f"sqlite:///{self.folder / 'tonnage.sqlite'}"
        self.conf = self.folder / "tonnage.conf"
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", _WATCHER, self.folder], stdin=subprocess.PIPE, cwd="/", start_new_session=True
        )
        try:
            self._require_room()
            self.conf.write_text(self._configuration())
            self.processes = {name: Process(name, self._own_conf(name)) for name in self._names}
            self.rest = Rest(f"http://127.0.0.1:{self.port}", self._asker)
            self._engine = database.create_engine(self.url)
            schema.sync(self._engine, self.revision)
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
        """Whether these are processes that talk over a message bus."""
        return self._addresses.bus is not None

    def pool(self, backend: str) -> str:
        """Return the full name of a backend's pool."""
        return f"{self.host}@{backend}#{backend}"

    def start(self, *names: str) -> Self:
        """Start the processes, all or some, and wait until everything that runs then is ready."""
        epochs = self._epochs()
        for name in names or self._names:
            if name == "agent":
                # Before there is a queue its hello is lost, and it says it again only when nobody has answered.
                until(self._has_queue, "schedulers can be reached")
            self._watch(self.processes[name].start(self._environment))
            self._meant_to_run.add(name)
        runs_agent = not names or not {"agent", "standalone"}.isdisjoint(names)
        until(lambda: self._ready(epochs if runs_agent else None), "Tonnage is ready")
        return self

    def start_another_scheduler(self) -> Process:
        """Start a scheduler beside the other, of the present release whichever the others are of."""
        folder = self.folder / "another"
        folder.mkdir()
        conf = folder / "tonnage.conf"
        conf.write_text(self.conf.read_text().replace(f"host = {self.host}\n", "host = another\n"))
        another = Process("scheduler", conf)
        self._watch(another.start())
        until(lambda: "Scheduler is ready" in another.log.read_text(), "the other scheduler is ready")
        return another

    def stop(self, number: signal.Signals = signal.SIGTERM, *, whole_group: bool = False) -> dict[str, int]:
        """Ask all processes to end, wait, and return their exit codes."""
        self._meant_to_run.clear()
        for process in self.processes.values():
            process.send(number, whole_group=whole_group)
        return {name: process.wait() for name, process in self.processes.items()}

    def kill(self, *names: str) -> None:
        """End the processes, all or some, as a power cut would."""
        self._meant_to_run -= set(names or self._names)
        processes = [self.processes[name] for name in names] or list(self.processes.values())
        everybody = [one for process in processes for one in process.family()]
        for one in everybody:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(everybody, timeout=_PATIENCE)
        for process in processes:
            process.reap()

    def attempt(self, program: str, conf: pathlib.Path | None = None, *arguments: str) -> Ended:
        """Run a program that is expected to end by itself."""
        done = subprocess.run(
            [_COMMANDS / f"tonnage-{program}", "--config-file", conf or self.conf, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
            env=None if self._environment is None else {**os.environ, **self._environment},
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def variant(self, **changes: Options) -> pathlib.Path:
        """Return a configuration file that differs from the one in force by some options of some sections."""
        parser = configparser.ConfigParser(interpolation=None, default_section="")
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(self.conf)
        for section, options in changes.items():
            parser[section].update({name: str(value) for name, value in options.items()})
        other = self.folder / "variant.conf"
        with other.open("w") as file:
            parser.write(file)
        return other

    def logs(self) -> str:
        """Return what the processes wrote, and how those ended that have."""
        return "\n".join(
            f"== {process.log.name}{process.ending}\n{process.log.read_text(errors='replace')[-20000:]}"
            for process in self.processes.values()
            if process.log.exists()
        )

    @contextlib.contextmanager
    def rpc(self) -> Iterator[SchedulerClient]:
        """A client of the schedulers; only where there is a message bus."""
        assert self._addresses.bus is not None
        with bus.memory_transport(response_timeout=30, url=self._addresses.bus) as connected:
            yield SchedulerClient(connected)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the ledger."""
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]

    def number(self, statement: str) -> Any:
        """Ask the ledger for one value."""
        ((value,),) = self.sql(statement)
        return value

    def path(self, backend: str) -> pathlib.Path:
        """Return the folder of a backend's volumes."""
        return self.folder / "volumes" / backend

    def files(self, backend: str) -> dict[str, os.stat_result]:
        """Return the volumes that are there, by the names of their files; the mark of the folder is a link."""
        folder = self.path(backend)
        found = {}
        for file in folder.iterdir() if folder.exists() else ():
            with contextlib.suppress(FileNotFoundError):  # one may go between the list and the look
                if file.is_file():
                    found[file.name] = file.stat()
        return found

    def check_counters(self) -> None:
        """The counters are what the claims say, at any moment: each row is one statement's view."""
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
        """Nothing is under way any more: ledger, files and get_pools tell the same, to the GiB."""
        until(self._at_rest, "everything comes to rest")
        self.check_counters()
        for backend in self._backends:
            pool = self.pool(backend)
            held = dict(
                self.sql(
                    "SELECT v.id, v.size_gb FROM volumes v JOIN pools p ON p.id = v.pool_id"
                    f" WHERE p.name = '{pool}' AND v.status = 'available'"
                )
            )
            assert {name: file.st_size for name, file in self.files(backend).items()} == {
                name: size * GIB for name, size in held.items()
            }
            allocated = sum(held.values())
            assert self.number(f"SELECT allocated_capacity_gb FROM pools WHERE name = '{pool}'") == allocated
            # What was deleted is provisioned until a report says otherwise.
            until(lambda: self._shown(pool) == (allocated, allocated), f"get_pools shows {allocated} GiB on {pool}")  # noqa: B023

    @property
    def _names(self) -> Sequence[str]:
        return _DAEMONS if self.distributed else _STANDALONE

    def _shown(self, pool: str) -> tuple[float, float]:
        capabilities = self.rest.pools()[pool]
        return capabilities["allocated_capacity_gb"], capabilities["provisioned_capacity_gb"]

    def _at_rest(self) -> bool:
        moving = "SELECT COUNT(*) FROM volumes WHERE status NOT IN ('available', 'error')"
        flying = "SELECT COUNT(*) FROM claims WHERE NOT contained OR state = 'pending'"
        return self.number(moving) == 0 and self.number(flying) == 0

    def _ready(self, epochs: Mapping[str, int] | None) -> bool:
        """Whether the API answers and, if an agent has just been started, its backends have joined and reported."""
        for name, process in self.processes.items():
            assert process.running or name not in self._meant_to_run, f"{name} has ended\n{self.logs()}"
        if epochs is not None:
            joined = dict(self.sql("SELECT name, epoch FROM backends WHERE report_seq > 0"))
            if any(joined.get(name, 0) <= epoch for name, epoch in epochs.items()):
                return False
        if not self.rest.healthy():
            return False
        pools = self.rest.call("GET", "scheduler-stats/get_pools")
        return pools.status_code == 200 and len(pools.json()["pools"]) >= len(self._backends)

    def _has_queue(self) -> bool:
        assert self._addresses.bus is not None
        with kombu.Connection(self._addresses.bus.replace("rabbit:", "amqp:"), connect_timeout=60) as connection:
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
        sections: dict[str, Options] = {"DEFAULT": defaults, "database": {"connection": self.url}}
        if not self.distributed:
            sections["oslo_messaging_rabbit"] = {"heartbeat_timeout_threshold": 0}
        if self._asker is not None:
            sections["DEFAULT"] = {**defaults, "auth_strategy": "keystone"}
            sections["keystone_authtoken"] = self._asker.options
        for name, options in self._backends.items():
            sections[name] = {
                "volume_driver": "filesystem",
                "volume_backend_name": name,
                "filesystem_path": self.path(name),
                **options,
            }
        return render(sections)

    def _own_conf(self, name: str) -> pathlib.Path:
        """An agent says hello before anybody listens; it shall not wait long until it does so again."""
        if name != "agent":
            return self.conf
        own = self.folder / "agent.conf"
        own.write_text(self.conf.read_text().replace("rpc_response_timeout = 20", "rpc_response_timeout = 5"))
        return own

    def _require_room(self) -> None:
        """What a pool may hold is bounded by what is free, so a small disk would change every expected figure."""
        limits = [int(options.get("filesystem_size_limit_gb", 0)) for options in self._backends.values()]
        needed, free = max(limits, default=0) + 2, shutil.disk_usage(self.folder).free // GIB
        if free < needed:
            suites.cannot_run("end-to-end", f"{free} GiB free below {self.folder.parent}, {needed} needed; set TMPDIR")

    def _watch(self, pid: int) -> None:
        """Have the process ended and the folder removed, however this one ends."""
        assert self._watcher.stdin
        self._watcher.stdin.write(b"%d %d\n" % (pid, signal.SIGKILL))
        self._watcher.stdin.flush()

    def _close(self) -> None:
        assert self._watcher.stdin
        self._watcher.stdin.close()
        self._watcher.wait()


def render(sections: Mapping[str, Options]) -> str:
    """Return a configuration file."""
    return "\n".join(
        f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
        for section, options in sections.items()
    )


def at_once(threads: int, work: Callable[[int], Any]) -> list[Any]:
    """Run ``work(number)`` on so many threads, begun together; return what it returned in each, or raise as it did."""
    barrier = threading.Barrier(threads)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))
