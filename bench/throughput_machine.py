# SPDX-License-Identifier: Apache-2.0
"""The machine of a benchmark: servers that wait for the disk, the speed of the disk, the use of the processors."""

import abc
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Self, TypeVar

import psutil
import sqlalchemy as sa

# The private servers are in the tests. The path comes last, so that no room is imported by its bare name.
sys.path.append(str(pathlib.Path(__file__).parents[1]))

import process_folder

from tests import servers
from tests.servers import base, database

BUS = servers.RabbitMQ
DATABASES: Mapping[str, type[database.DatabaseServer]] = {
    "postgresql": servers.PostgreSQL,
    "mariadb": servers.MariaDB,
}


class NotAvailable(Exception):
    """A server or program that a benchmark needs is not on this machine."""


_CACHE = pathlib.Path(tempfile.gettempdir()) / f"tonnage-bench-compiled-{os.geteuid()}"


def environment() -> dict[str, str]:
    """Return the environment of a program: it uses compiled modules, and writes none into the checkout."""
    mine = {**os.environ, "PYTHONPYCACHEPREFIX": str(_CACHE)}
    mine.pop("PYTHONDONTWRITEBYTECODE", None)
    return mine


AnyServer = TypeVar("AnyServer", bound=base.Server)


def start(kind: type[AnyServer]) -> AnyServer:
    """Return a private server as a context manager. Raises :class:`NotAvailable` if it is not installed."""
    if not kind.installed():
        raise NotAvailable(f"no {kind.name} on this machine; install the package {kind.packages}")
    return kind(durable=True)


def fsyncs_per_second(seconds: float = 1.0) -> float:
    """Return the number of durable writes of 4 KiB per second on the disk of the temporary folder and the databases."""
    block = os.urandom(4096)
    with tempfile.NamedTemporaryFile() as file:
        began = time.perf_counter()
        count = 0
        while (now := time.perf_counter()) - began < seconds:
            file.write(block)
            file.flush()
            os.fdatasync(file.fileno())
            count += 1
    return count / (now - began)


def listens(port: int) -> bool:
    """Return whether a process listens on a port of the loopback interface."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its children, in seconds."""
    return sum(seconds for _, seconds in _seconds([pid]))


def memory_bytes(pid: int) -> int:
    """Return the unshared memory of a process and its children, in bytes."""
    parent = psutil.Process(pid)
    total = 0
    for process in (parent, *parent.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().uss
    return total


def peak_memory_bytes(pid: int) -> int:
    """Return the largest resident memory that a process and its children have had so far, in bytes."""
    parent = psutil.Process(pid)
    total = 0
    for process in (parent, *parent.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            fields = dict(
                line.split(":", 1) for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
            )
            total += int(fields.get("VmHWM", "0 kB").split()[0]) * 1024
    return total


class Usage:
    """Processor time of groups of processes, with their children, between :meth:`begin` and :meth:`end`."""

    def __init__(self, groups: Mapping[str, Iterable[int]]) -> None:
        """Store the groups. ``groups`` maps a name to process ids."""
        self._groups = {name: list(pids) for name, pids in groups.items()}
        self._before: dict[str, dict[int, float]] = {}
        self._began = 0.0

    def begin(self) -> None:
        """Start the measurement."""
        self._began = time.monotonic()
        self._before = self._read()

    def end(self) -> dict[str, float]:
        """Return the processor time of each group per second, as a number of processors."""
        elapsed = time.monotonic() - self._began
        after = self._read()
        return {
            name: sum(seconds - self._before[name].get(pid, 0.0) for pid, seconds in used.items()) / elapsed
            for name, used in after.items()
        }

    def _read(self) -> dict[str, dict[int, float]]:
        return {name: dict(_seconds(pids)) for name, pids in self._groups.items()}


def _seconds(pids: Iterable[int]) -> Iterator[tuple[int, float]]:
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = one.cpu_times()
                    yield one.pid, times.user + times.system


class ProcessGroup:
    """A temporary folder and its processes. Both are removed with the context, also if this process is killed."""

    def __enter__(self) -> Self:
        self._process_folder = process_folder.ProcessFolder("tonnage-bench-").__enter__()
        self.folder = self._process_folder.path
        self._processes: dict[str, subprocess.Popen[str]] = {}
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes.values()):
            # Agents first: they receive the messages in transit, and schedulers finish their requests.
            process.terminate()
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        # Kill the remaining processes.
        self._process_folder.__exit__()
        for process in self._processes.values():
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def start(
        self,
        name: str,
        *command: str | pathlib.Path,
        talks: bool = False,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[str]:
        """Start a process with a log file. A process that ``talks`` has pipes for standard input and output."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = self._processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else log,
                stderr=log,
                cwd=self.folder,
                env={**environment(), **variables},
                start_new_session=True,
                text=True,
            )
        self._process_folder.watch(process.pid)
        return process

    def run(self, name: str, *command: str | pathlib.Path) -> None:
        """Run a process to its end. Raises RuntimeError with the end of its log if it fails."""
        code = self.start(name, *command).wait()
        del self._processes[name]
        if code:
            raise RuntimeError(f"{name} has ended with {code}: {self.log_end(name)}")

    def stop(self, process: "subprocess.Popen[str]") -> None:
        """Terminate a process gracefully and wait for its end."""
        process.terminate()
        process.wait(60)

    def until(self, condition: Callable[[], bool], event: str, seconds: float = 120.0, pause: float = 0.05) -> None:
        """Wait until the condition holds. ``pause`` is the time between two checks, in seconds.

        Raises RuntimeError after ``seconds``, or with the end of the log of a process that has ended.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            for name, process in self._processes.items():
                if process.poll() not in (None, 0):
                    raise RuntimeError(f"{name} has ended with {process.returncode}: {self.log_end(name)}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {seconds:.0f} s for {event}")
            time.sleep(pause)

    def log_end(self, name: str) -> str:
        """Return the end of a process's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace").strip()[-2000:]


class Deployment(abc.ABC):
    """Processes with a database and a temporary folder. Inside the context they are ready."""

    def __init__(self, database: str) -> None:
        self._shop = ProcessGroup()
        self._engine = sa.create_engine(database, isolation_level="AUTOCOMMIT")

    @abc.abstractmethod
    def _begin(self) -> None:
        """Start the processes, and wait until they are ready for the measurement."""

    def __enter__(self) -> Self:
        self._shop.__enter__()
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()
        self._shop.__exit__()


def ask(process: "subprocess.Popen[str]", word: str) -> str:
    """Send a command to a process and return the line of its answer. Raises RuntimeError if the process has ended."""
    assert process.stdin
    assert process.stdout
    if word:
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"process {process.pid} ended instead of answering {word or 'that it is ready'!r}")
    return line.rstrip("\n")
