# SPDX-License-Identifier: Apache-2.0
"""What private servers have in common: a folder, processes, and an end that leaves nothing behind."""

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
    """Return a port of the loopback interface that nothing uses.

    It is taken from below the range of outgoing connections, so that it is still free when a server starts again. A
    server may take long until it listens: a process gives no port twice while there are others, and the workers of a
    run have their own.
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
    """Return the account for a server that refuses to run as root; None when this is not root anyway."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("no unprivileged account to run a server as: neither postgres nor nobody")


class Server(abc.ABC):
    """A private server. Use it as a context manager; :attr:`url` is valid inside and survives :meth:`restart`."""

    name: ClassVar[str]
    """What a person calls it."""
    packages: ClassVar[str]
    """What to install from a Debian-like distribution."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """Ends it orderly, data kept."""
    end_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """Ends it when nobody needs its data any more, leaving nothing in the system."""
    patience: ClassVar[float] = 120.0
    """Seconds it gets to become ready."""

    url: str
    """Where clients connect, as SQLAlchemy or oslo.messaging write it."""

    def __init__(self, *, durable: bool = False) -> None:
        """``durable`` makes a database wait for the disk at each commit, as it does in production."""
        self._durable = durable
        self._processes: list[subprocess.Popen[bytes]] = []

    @classmethod
    @abc.abstractmethod
    def installed(cls) -> bool:
        """Whether its programs are on this machine."""

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Make the data folder and choose the address: everything that is done once."""

    @abc.abstractmethod
    def _launch(self) -> subprocess.Popen[bytes]:
        """Start the server itself with :meth:`_popen`."""

    @abc.abstractmethod
    def _ready(self) -> bool:
        """Whether it answers clients."""

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
            self._prepare()
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
        """The server's process, the last one that was started."""
        return self._processes[-1]

    def start(self) -> None:
        """Start it, on the data it has, and wait until it answers. Raises RuntimeError with its last words if not."""
        process = self._launch()
        deadline = time.monotonic() + self.patience
        while not self._ready():
            if process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {process.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} was not ready after {self.patience:.0f} s: {self._last_words()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Shut it down orderly and wait for its end."""
        self.process.send_signal(self.stop_signal)
        self.process.wait(self.patience)

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL to everything at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(self.patience)

    def restart(self) -> None:
        """Shut it down orderly and start it again at the same address."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End whatever runs and remove the folder; the watcher does it, as it does when there is nobody to ask."""
        assert self._watcher.stdin
        self._watcher.stdin.close()
        self._watcher.wait()
        for process in self._processes:
            process.wait(self.patience)

    def _popen(
        self,
        command: Sequence[str | pathlib.Path],
        *,
        env: Mapping[str, str] | None = None,
        account: pwd.struct_passwd | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program of this server, at the head of a session of its own and known to the watcher."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
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
        """Run a program of this server to its end and return what it wrote. Raises RuntimeError with it on failure."""
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

    def _last_words(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace").strip()[-2000:] if log.exists() else "(it wrote nothing)"


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
