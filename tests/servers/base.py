# SPDX-License-Identifier: Apache-2.0
"""The base class of private servers, which have a folder and processes and leave nothing behind."""

import abc
import contextlib
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

_WATCHER = pathlib.Path(__file__).with_name("watcher.py")
_LONGEST_SOCKET_FOLDER = 60  # the path of a Unix socket may have 107 bytes


def find(*names: str, folders: Sequence[str] = ()) -> pathlib.Path | None:
    """Return the first program of that name on PATH, in the system's folders or in ``folders``."""
    path = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin", "/sbin"])
    for name in names:
        if found := shutil.which(name, path=path):
            return pathlib.Path(found)
    return None


_given_ports: set[int] = set()


def free_port() -> int:
    """Return an unused port of the loopback interface.

    The port is below the range of outgoing connections, so it is still free when a server restarts. A server may listen
    late: a process returns no port twice while there are others, and each worker of a run has its own range.
    """
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % workers
    span = (max(lowest, 11000) - 10000) // workers
    for attempt in range(1000):
        port = 10000 + worker * span + random.randrange(span)
        if port in _given_ports and attempt < 500:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given_ports.add(port)
            return port
    raise RuntimeError("no free port on 127.0.0.1")


def unprivileged_user() -> pwd.struct_passwd | None:
    """Return an account for a server that refuses to run as root, or None if this process is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("no unprivileged account to run a server as: neither postgres nor nobody")


class Server(abc.ABC):
    """A private server. Use it as a context manager; :attr:`url` is valid inside and survives :meth:`restart`."""

    name: ClassVar[str]
    """The name of the server in messages."""
    packages: ClassVar[str]
    """The packages of a Debian-like distribution to install."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """The signal for an orderly shutdown that keeps the data."""
    end_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """The signal for an end that discards the data and leaves nothing in the system."""
    patience: ClassVar[float] = 120.0
    """Seconds until the server must be ready."""

    url: str
    """The URL for clients, in the form of SQLAlchemy or oslo.messaging."""

    def __init__(self, *, durable: bool = False) -> None:
        """With ``durable`` a database waits for the disk at each commit, as in production."""
        self._durable = durable
        self._processes: list[subprocess.Popen[bytes]] = []

    @classmethod
    @abc.abstractmethod
    def installed(cls) -> bool:
        """Return whether the programs are on this machine."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Create the data folder and choose the address, once."""

    @abc.abstractmethod
    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server process with :meth:`popen`."""

    @abc.abstractmethod
    def _ready(self) -> bool:
        """Return whether the server answers clients."""

    def __enter__(self) -> Self:
        base = tempfile.gettempdir()
        self.folder = pathlib.Path(
            tempfile.mkdtemp(prefix="tonnage-", dir=base if len(base) < _LONGEST_SOCKET_FOLDER else "/tmp")
        )
        self.folder.chmod(0o711)
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", _WATCHER, self.folder], stdin=subprocess.PIPE, cwd="/", start_new_session=True
        )
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the last start."""
        return self._processes[-1]

    def start(self) -> None:
        """Start the server with its data and wait until it answers. Raises RuntimeError with the end of its log."""
        process = self.launch()
        deadline = time.monotonic() + self.patience
        while not self._ready():
            if process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {process.returncode}: {self._log_end()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} was not ready after {self.patience:.0f} s: {self._log_end()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Shut the server down and wait for its end."""
        self.process.send_signal(self.stop_signal)
        self.process.wait(self.patience)

    def kill(self) -> None:
        """Kill all processes of the server at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(self.patience)

    def restart(self) -> None:
        """Shut the server down and start it again at the same address."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Let the watcher end all processes and remove the folder."""
        assert self._watcher.stdin
        self._watcher.stdin.close()
        self._watcher.wait()
        for process in self._processes:
            process.wait(self.patience)

    def popen(
        self,
        command: Sequence[str | pathlib.Path],
        *,
        env: Mapping[str, str] | None = None,
        account: pwd.struct_passwd | None = None,
        log: str = "log",
    ) -> subprocess.Popen[bytes]:
        """Start a program of this server in a new session, and tell the watcher its id. ``log`` is a file's name."""
        with (self.folder / log).open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=env,
                start_new_session=True,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
            )
        self._processes.append(process)
        assert self._watcher.stdin
        self._watcher.stdin.write(b"%d %d\n" % (process.pid, self.end_signal))
        self._watcher.stdin.flush()
        return process

    def _run(
        self,
        command: Sequence[str | pathlib.Path],
        *,
        env: Mapping[str, str] | None = None,
        account: pwd.struct_passwd | None = None,
    ) -> str:
        """Run a program of this server, and return its output. Raises RuntimeError with the output if it fails."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            env=env,
            check=False,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: {pathlib.Path(command[0]).name} failed: {done.stdout.strip()[-2000:]}")
        return done.stdout

    def _log_end(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace").strip()[-2000:] if log.exists() else "(the log is empty)"


def wait_for(condition: Callable[[], Any], description: str, seconds: float = 120.0) -> Any:
    """Call ``condition`` until its value is true, and return the value.

    Raises TimeoutError with ``description``, a sentence or a noun, after this many seconds. A condition that takes long
    to become true is called less often: each call costs processor time that the servers need.
    """
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        if waited > seconds:
            raise TimeoutError(f"not within {seconds:g} s: {description}")
        time.sleep(min(max(0.02, waited / 10), 0.2))
    return value
