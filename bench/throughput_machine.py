# SPDX-License-Identifier: Apache-2.0
"""The machine under a benchmark: servers that wait for the disk, how fast it is, and who uses its processors."""

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

# The private servers are those of the tests. Last on the path: no room may be found by its bare name first.
sys.path.append(str(pathlib.Path(__file__).parents[1]))

import watched

from tests import servers
from tests.servers import base, database

BUS = servers.RabbitMQ
DATABASES: Mapping[str, type[database.DatabaseServer]] = {
    "postgresql": servers.PostgreSQL,
    "mariadb": servers.MariaDB,
}


class NotHere(Exception):
    """Something that a benchmark needs is not on this machine."""


_CACHE = pathlib.Path(tempfile.gettempdir()) / f"tonnage-bench-compiled-{os.geteuid()}"


def environment() -> dict[str, str]:
    """Return the environment for a program: compiled, as one that is installed has been, and the checkout untouched."""
    mine = {**os.environ, "PYTHONPYCACHEPREFIX": str(_CACHE)}
    mine.pop("PYTHONDONTWRITEBYTECODE", None)
    return mine


AnyServer = TypeVar("AnyServer", bound=base.Server)


def start(kind: type[AnyServer]) -> AnyServer:
    """Return a private server, to be used as a context manager. Raises :class:`NotHere` if it is not installed."""
    if not kind.installed():
        raise NotHere(f"no {kind.name} on this machine; install the package {kind.packages}")
    return kind(durable=True)


def fsyncs_per_second(seconds: float = 1.0) -> float:
    """Return how often a second the disk below the temporary folder, where the databases are, takes 4 KiB for good."""
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
    """Tell whether somebody listens on a port of the loopback interface."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process and its children have used."""
    return sum(seconds for _, seconds in _seconds([pid]))


class Usage:
    """Processor time that groups of processes use between :meth:`begin` and :meth:`end`, their children included."""

    def __init__(self, groups: Mapping[str, Iterable[int]]) -> None:
        """``groups`` maps a name to process ids."""
        self._groups = {name: list(pids) for name, pids in groups.items()}
        self._before: dict[str, dict[int, float]] = {}
        self._began = 0.0

    def begin(self) -> None:
        """Begin to count."""
        self._began = time.monotonic()
        self._before = self._read()

    def end(self) -> dict[str, float]:
        """Return the share of one processor that each group has used, and ``(all)``: of the whole machine."""
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


class Workshop:
    """A temporary folder and the processes that work in it; both go with the context, however this process ends."""

    def __enter__(self) -> Self:
        self._watched = watched.Folder("tonnage-bench-").__enter__()
        self.folder = self._watched.path
        self._processes: dict[str, subprocess.Popen[str]] = {}
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes.values()):
            # Agents first: their servers take in what is on the way, and schedulers finish what they have.
            process.terminate()
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        # Who is still there is killed.
        self._watched.__exit__()
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
        """Start a process whose messages go to a log. One that ``talks`` is spoken with over its standard streams."""
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
        self._watched.watch(process.pid)
        return process

    def run(self, name: str, *command: str | pathlib.Path) -> None:
        """Run a process to its end. Raises RuntimeError with its last words if it fails."""
        code = self.start(name, *command).wait()
        del self._processes[name]
        if code:
            raise RuntimeError(f"{name} has ended with {code}: {self.last_words(name)}")

    def stop(self, process: "subprocess.Popen[str]") -> None:
        """End a process orderly and wait for it."""
        process.terminate()
        process.wait(60)

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Wait until the condition holds. Raises RuntimeError, with the last words of a process that has ended."""
        deadline = time.monotonic() + seconds
        while not condition():
            for name, process in self._processes.items():
                if process.poll() not in (None, 0):
                    raise RuntimeError(f"{name} has ended with {process.returncode}: {self.last_words(name)}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {seconds:.0f} s for {what}")
            time.sleep(0.05)

    def last_words(self, name: str) -> str:
        """Return the end of what a process has logged."""
        return (self.folder / f"{name}.log").read_text(errors="replace").strip()[-2000:]


class Deployment(abc.ABC):
    """Processes around a database, in a workshop of their own; inside the context they have begun to work."""

    def __init__(self, database: str) -> None:
        self._shop = Workshop()
        self._engine = sa.create_engine(database, isolation_level="AUTOCOMMIT")

    @abc.abstractmethod
    def _begin(self) -> None:
        """Start the processes, and wait until all that is measured can be."""

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
    """Say a word to a process that talks and return the line that it answers. Raises RuntimeError if it says none."""
    assert process.stdin
    assert process.stdout
    if word:
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"process {process.pid} ended instead of answering {word or 'that it is ready'!r}")
    return line.rstrip("\n")
