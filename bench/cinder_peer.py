# SPDX-License-Identifier: Apache-2.0
"""An installation of Cinder's scheduler and API, for the comparison with Tonnage: processes, database, RPC."""

import argparse
import contextlib
import pathlib
import subprocess
import sys
import time

import command
import throughput_machine as machine

#: The release that is measured.
RELEASE = "29.0.0"

#: Seconds without a new placement after which the benchmark no longer waits for accepted volumes.
_GIVEN_UP = 30.0

_MANAGE, _SCHEDULER, _API = "cinder-manage", "cinder-scheduler", "cinder-api"

CONF = """\
[DEFAULT]
host = peer
transport_url = {bus}
state_path = {folder}
log_file = {folder}/cinder-{name}.log
rpc_response_timeout = {timeout}
max_over_subscription_ratio = 20.0
auth_strategy = noauth
api_paste_config = {etc}/api-paste.ini
resource_query_filters_file = {etc}/resource_filters.json
osapi_volume_listen = 127.0.0.1
osapi_volume_listen_port = {port}
quota_volumes = -1
quota_gigabytes = -1
[database]
connection = {database}
[oslo_concurrency]
lock_path = {folder}/locks
"""


def install(cache: pathlib.Path) -> pathlib.Path:
    """Return the Python of a virtual environment with Cinder, created in the cache folder if it does not exist.

    Raises :class:`~throughput_machine.NotAvailable` if Cinder cannot be installed.
    """
    python = cache / f"cinder-{RELEASE}" / "bin" / "python"
    with contextlib.suppress(machine.NotAvailable):
        check(python)
        return python
    for words in (
        [sys.executable, "-m", "venv", "--clear", python.parents[1]],
        [python, "-m", "pip", "install", "--quiet", f"cinder=={RELEASE}", "PyMySQL>=1.1", "psycopg[binary]>=3.2"],
    ):
        done = subprocess.run(
            [*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            raise machine.NotAvailable(f"Cinder {RELEASE} could not be installed: {_last_line(done.stdout)}")
    check(python)
    return python


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for the location of Cinder."""
    parser.add_argument("--cinder-python", type=_path, help="Python of an environment that has Cinder")
    parser.add_argument(
        "--cache",
        type=_path,
        default=pathlib.Path.home() / ".cache" / "tonnage-bench",
        help="folder for an environment with Cinder, created if it does not exist",
    )


def asked_for(arguments: argparse.Namespace) -> pathlib.Path:
    """Return the Python of ``--cinder-python``, or the one in the cache.

    Raises :class:`~throughput_machine.NotAvailable` if it has no Cinder.
    """
    if arguments.cinder_python is None:
        command.progress(f"looking for Cinder in {arguments.cache}")
        return install(arguments.cache)
    check(arguments.cinder_python)
    return pathlib.Path(arguments.cinder_python)


def _path(text: str) -> pathlib.Path:
    """Return an absolute path. Links are not resolved, because a Python finds its environment by its link."""
    return pathlib.Path(text).absolute()


def check(python: pathlib.Path) -> None:
    """Check that this Python has the right release of Cinder, the database clients and the commands.

    Raises :class:`~throughput_machine.NotAvailable` if it has not.
    """
    code = "import importlib.metadata as m, psycopg, pymysql; print(m.version('cinder'))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError as error:
        raise machine.NotAvailable(f"{python} is no Python that can be run: {error.strerror}") from None
    if done.returncode:
        raise machine.NotAvailable(
            f"{python} has no Cinder {RELEASE} with psycopg and PyMySQL: {_last_line(done.stderr)}"
        )
    if done.stdout.strip() != RELEASE:
        raise machine.NotAvailable(f"{python} has Cinder {done.stdout.strip()}, and {RELEASE} is measured")
    for program in (_MANAGE, _SCHEDULER, _API):
        if not python.with_name(program).exists():
            raise machine.NotAvailable(f"{python} has no {program} beside it")


def _last_line(said: str) -> str:
    return said.strip().rpartition("\n")[2] or "it said nothing"


class Cinder(machine.Deployment):
    """Cinder's scheduler with simulated volume services. Inside the context it has a report of every pool."""

    def __init__(
        self, python: pathlib.Path, database: str, bus: str, *, backends: int, pools: int, in_flight: int, volumes: int
    ) -> None:
        """Store the parameters. ``volumes`` is the number of volumes in the database before the first request."""
        super().__init__(database)
        self._python, self._database, self._bus = python, database, bus
        self._sizes = {"backends": backends, "pools": pools, "in-flight": in_flight, "volumes": volumes}

    def start_api(self, port: int) -> "subprocess.Popen[str]":
        """Start the REST API and wait until it listens."""
        file = self._conf("api", port)
        process = self._shop.start("api", self._python.with_name(_API), "--config-file", file)
        self._shop.until(lambda: machine.listens(port), "cinder-api to listen")
        return process

    def wait_for_placements(self, count: int) -> None:
        """Wait until ``count`` volumes have a pool, or no further volume gets one."""
        placed, since = -1, time.monotonic()
        while placed < count and time.monotonic() - since < _GIVEN_UP:
            time.sleep(0.5)
            now = self.placed()
            if now > placed:
                placed, since = now, time.monotonic()

    def groups(self) -> dict[str, list[int]]:
        """Return the process ids of the scheduler."""
        return {"scheduler": [self._scheduler.pid]}

    def placed(self) -> int:
        """Return the number of volumes with a pool in the database."""
        with self._engine.connect() as connection:
            count = connection.exec_driver_sql("SELECT COUNT(*) FROM volumes WHERE host IS NOT NULL")
            return int(count.scalar_one())

    def _begin(self) -> None:
        shop = self._shop
        program = self._python.with_name(_MANAGE)
        shop.run("manage", program, "--config-file", self._conf("manage"), "db", "sync")
        self.load = shop.start(
            "load",
            *(
                self._python,
                pathlib.Path(__file__).with_name("cinder_peer_load.py"),
                "--config-file",
                # The load queries the pools repeatedly, and starts before the scheduler listens.
                self._conf("load", timeout=5 + self._sizes["pools"] // 1000),
            ),
            *(word for name, size in self._sizes.items() for word in (f"--{name}", str(size))),
            talks=True,
            # The load uses native threads; the scheduler runs as in production.
            variables={"OS_CINDER_DISABLE_EVENTLET_PATCHING": "1"},
        )
        machine.ask(self.load, "")
        program = self._python.with_name(_SCHEDULER)
        self._scheduler = shop.start("scheduler", program, "--config-file", self._conf("scheduler"))
        wanted = self._sizes["pools"]
        shop.until(lambda: int(machine.ask(self.load, "known")) == wanted, "cinder-scheduler to know every pool", 300)

    def _conf(self, name: str, port: int = 0, timeout: int = 60) -> pathlib.Path:
        file, etc = self._shop.folder / f"{name}.conf", self._python.parents[1] / "etc" / "cinder"
        words = {"bus": self._bus, "database": self._database, "folder": self._shop.folder, "name": name}
        text = CONF.format(**words, etc=etc, port=port, timeout=timeout)
        file.write_text(text)
        return file
