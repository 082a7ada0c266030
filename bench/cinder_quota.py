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
import json
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Sequence

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
    parser.add_argument("--seconds", type=float, default=6.0, help="seconds of each round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds, whose creates are joined (%(default)s)")
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
                taken: dict[str, list[float]] = {name: [] for name in _DRIVERS}
                for _ in range(arguments.rounds):
                    for name, seconds in taken.items():
                        with server.database() as url:
                            seconds += _round(arguments, _DRIVERS[name], _url(url), volumes, clients)
                for name, seconds in taken.items():
                    figures.append(_figures(name, volumes, clients, sorted(seconds), arguments))
                    command.progress(json.dumps(figures[-1]))
    return figures


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


def _round(arguments: argparse.Namespace, driver: str, url: str, volumes: int, clients: int) -> list[float]:
    words = [arguments.cinder_python, _PROGRAM, driver, url]
    filled = subprocess.run([*words, str(volumes), "0"], capture_output=True, text=True, check=False)
    if filled.returncode:
        raise command.BenchmarkError(f"the rows of volumes cannot be made: {filled.stderr[-1000:]}")
    processes = [
        subprocess.Popen(
            [*words, "0", str(arguments.seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(clients)
    ]
    for process in processes:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise command.BenchmarkError(f"a client failed: {process.communicate()[1][-2000:]}")
    for process in processes:
        if process.stdin is not None:
            process.stdin.write("\n")
            process.stdin.flush()
    taken: list[float] = []
    for process in processes:
        output, problem = process.communicate()
        if process.returncode:
            raise command.BenchmarkError(f"a client failed: {problem[-2000:]}")
        taken += json.loads(output)
    return taken


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
