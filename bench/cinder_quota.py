#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of Cinder's quotas: Cinder's own quota driver, and Tonnage's, on the databases of one MariaDB.

Clients are processes that do what cinder-api does for a new volume in one project: they reserve quota, make the row of
the volume, and commit the reservation. Times are milliseconds of a create. Run it with the Python that Tonnage is
installed in; Cinder's Python has both, as ``tools/install-openstack.sh cinder`` installs them::

    python bench/cinder_quota.py
    python bench/cinder_quota.py --volumes 10 --clients 4 --json

Exit status: 0; 1 if the measurement failed; 2 if Cinder or the database server is not available.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import command
import comparison_runner
import throughput_machine as machine

_PROGRAM = pathlib.Path(__file__).with_name("cinder_quota_in_process.py")

#: The drivers, by their names in the figures.
_DRIVERS = {"Cinder": "cinder.quota.DbQuotaDriver", "Tonnage": "tonnage.extensions.cinder.quota.driver.QuotaDriver"}

_SERVERS = {"mariadb": machine.servers.MariaDB, "postgresql": machine.servers.PostgreSQL}


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volumes", type=int, nargs="+", default=[10, 10_000], help="volumes of the project")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of each turn of a driver (%(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each driver (%(default)s)")
    parser.add_argument("--server", choices=sorted(_SERVERS), default="mariadb")
    parser.add_argument(
        "--cinder-python",
        type=pathlib.Path,
        default=pathlib.Path(__file__).parents[1] / ".cinder" / "bin" / "python",
        help="Python of an environment that has Cinder and Tonnage (%(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    return parser.parse_args(words)


def measure(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Return the figures of each driver, number of volumes and number of clients."""
    if not arguments.cinder_python.exists():
        raise machine.NotAvailable(f"there is no {arguments.cinder_python}; run tools/install-openstack.sh cinder")
    figures = []
    with machine.start(_SERVERS[arguments.server]) as server:
        for volumes in arguments.volumes:
            for clients in arguments.clients:
                taken = _trial(arguments, server, volumes, clients)
                for name, seconds in taken.items():
                    figures.append(_figures(name, volumes, clients, sorted(seconds), arguments))
                    command.progress(json.dumps(figures[-1]))
    return figures


def _trial(arguments: argparse.Namespace, server: Any, volumes: int, clients: int) -> dict[str, list[float]]:
    """Return the seconds of the creates with each driver. The drivers take turns, so both meet the same machine."""
    taken: dict[str, list[float]] = {name: [] for name in _DRIVERS}
    with contextlib.ExitStack() as cleanup:
        processes = {}
        for name, driver in _DRIVERS.items():
            url = _url(cleanup.enter_context(server.database()))
            words = [arguments.cinder_python, _PROGRAM, driver, url, str(volumes), str(clients)]
            processes[name] = cleanup.enter_context(_program(words))
        for _ in range(arguments.rounds):
            for name, seconds in taken.items():
                _write(processes[name], f"{arguments.seconds}\n")
                seconds += json.loads(_read(processes[name]))
    return taken


@contextlib.contextmanager
def _program(words: Sequence[str | pathlib.Path]) -> Iterator["subprocess.Popen[str]"]:
    """Run the clients of a driver until the end of the context."""
    with tempfile.TemporaryFile("w+") as problems:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=problems, text=True, start_new_session=True
        )
        try:
            if _read(process) != "ready\n":
                process.wait()
                problems.seek(0)
                raise command.BenchmarkError(f"the clients failed: {problems.read()[-2000:]}")
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _write(process: "subprocess.Popen[str]", line: str) -> None:
    if process.stdin is not None:
        process.stdin.write(line)
        process.stdin.flush()


def _read(process: "subprocess.Popen[str]") -> str:
    return "" if process.stdout is None else process.stdout.readline()


def _url(url: str) -> str:
    """Return a URL in the form that Cinder takes."""
    return url.replace("charset=utf8mb4", "charset=utf8").replace("postgresql+psycopg:", "postgresql+psycopg2:")


def _figures(
    name: str, volumes: int, clients: int, taken: Sequence[float], arguments: argparse.Namespace
) -> dict[str, object]:
    cuts = statistics.quantiles(taken, n=100)
    return {
        "driver": name,
        "volumes": volumes,
        "clients": clients,
        "p50_ms": round(cuts[49] * 1000, 1),
        "p99_ms": round(cuts[98] * 1000, 1),
        "per_second": round(len(taken) / arguments.seconds / arguments.rounds, 1),
    }


def show(figures: Sequence[dict[str, object]]) -> str:
    """Return the figures as a table."""
    columns = list(figures[0])
    return comparison_runner.table(columns, [[row[column] for column in columns] for row in figures])


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    arguments = parse(words)
    try:
        figures = measure(arguments)
    except (machine.NotAvailable, command.BenchmarkError) as error:
        print(f"cinder_quota: {error}", file=sys.stderr)
        return 2 if isinstance(error, machine.NotAvailable) else 1
    print(json.dumps(figures) if arguments.json else show(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
