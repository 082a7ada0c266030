# SPDX-License-Identifier: Apache-2.0
"""Cinder's scheduler as it is installed, to be measured beside Tonnage's: its process, its database, its RPC."""

import contextlib
import pathlib
import subprocess
import sys

import throughput_machine as machine

#: The release that is measured.
RELEASE = "29.0.0"

_MANAGE, _SCHEDULER = "cinder-manage", "cinder-scheduler"

_CONF = """\
[DEFAULT]
host = peer
transport_url = {bus}
state_path = {folder}
log_file = {folder}/cinder-{name}.log
rpc_response_timeout = 5
max_over_subscription_ratio = 20.0
[database]
connection = {database}
[oslo_concurrency]
lock_path = {folder}/locks
"""


def install(cache: pathlib.Path) -> pathlib.Path:
    """Return the Python of a virtual environment with Cinder in it, made in the cache folder if it is not there.

    Raises :class:`~throughput_machine.NotHere` if the package is not to be had.
    """
    python = cache / f"cinder-{RELEASE}" / "bin" / "python"
    with contextlib.suppress(machine.NotHere):
        check(python)
        return python
    for command in (
        [sys.executable, "-m", "venv", "--clear", python.parents[1]],
        [python, "-m", "pip", "install", "--quiet", f"cinder=={RELEASE}", "PyMySQL>=1.1"],
    ):
        done = subprocess.run(
            [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            raise machine.NotHere(f"Cinder {RELEASE} could not be installed: {_last_line(done.stdout)}")
    check(python)
    return python


def check(python: pathlib.Path) -> None:
    """Raise :class:`~throughput_machine.NotHere` unless that Python has the right release and all that it takes."""
    code = "import importlib.metadata as m, pymysql; print(m.version('cinder'))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError as error:
        raise machine.NotHere(f"{python} is no Python that can be run: {error.strerror}") from None
    if done.returncode:
        raise machine.NotHere(f"{python} has no Cinder {RELEASE} with PyMySQL: {_last_line(done.stderr)}")
    if done.stdout.strip() != RELEASE:
        raise machine.NotHere(f"{python} has Cinder {done.stdout.strip()}, and {RELEASE} is measured")
    for program in (_MANAGE, _SCHEDULER):
        if not python.with_name(program).exists():
            raise machine.NotHere(f"{python} has no {program} beside it")


def _last_line(said: str) -> str:
    return said.strip().rpartition("\n")[2] or "it said nothing"


class Cinder(machine.Deployment):
    """Cinder's scheduler with volume services around it; inside the context every pool has been reported to it."""

    def __init__(
        self, python: pathlib.Path, database: str, bus: str, *, backends: int, pools: int, in_flight: int, volumes: int
    ) -> None:
        """``volumes`` are so many that are in the database before anything is asked for."""
        super().__init__(database)
        self._python, self._database, self._bus = python, database, bus
        self._sizes = {"backends": backends, "pools": pools, "in-flight": in_flight, "volumes": volumes}

    def groups(self) -> dict[str, list[int]]:
        """Return the process ids of the scheduler."""
        return {"scheduler": [self._scheduler.pid]}

    def placed(self) -> int:
        """Return how many volumes have been given a pool, by the database."""
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
                self._conf("load"),
            ),
            *(word for name, size in self._sizes.items() for word in (f"--{name}", str(size))),
            talks=True,
            # Its threads are threads; the scheduler runs as it does in production.
            variables={"OS_CINDER_DISABLE_EVENTLET_PATCHING": "1"},
        )
        machine.ask(self.load, "")
        program = self._python.with_name(_SCHEDULER)
        self._scheduler = shop.start("scheduler", program, "--config-file", self._conf("scheduler"))
        wanted = self._sizes["pools"]
        shop.until(lambda: int(machine.ask(self.load, "known")) == wanted, "cinder-scheduler to know every pool", 300)

    def _conf(self, name: str) -> pathlib.Path:
        file = self._shop.folder / f"{name}.conf"
        text = _CONF.format(bus=self._bus, database=self._database, folder=self._shop.folder, name=name)
        file.write_text(text)
        return file
