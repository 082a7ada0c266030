#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of a decision in Cinder's place: Cinder's own scheduler, and Tonnage's with Cinder's or native plug-ins.

All decide the same requests of a volume type with three extra specs, which every second pool matches, with Cinder's
default filters and weigher, on the databases of one MariaDB. Run it with the Python that Tonnage is installed in;
Cinder's Python has both, as ``tools/install-openstack.sh cinder`` installs them::

    python bench/cinder_scheduler.py
    python bench/cinder_scheduler.py --pools 1000 --rounds 1 --json

Times are medians of processor milliseconds of the scheduler's thread. ``choice`` is a decision until the pool is
chosen; ``claim`` is the rest: the claim in the ledger and the rows in Cinder's database (with Cinder's own scheduler
the row alone). ``refresh`` is the work that a thread does in each second that brings claims of other schedulers.

Exit status: 0; 1 if the measurement failed; 2 if Cinder or MariaDB is not available.
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

_PROGRAM = pathlib.Path(__file__).with_name("cinder_scheduler_in_process.py")

#: Titles of the schedulers, by their names in the program.
_TITLES = {"stock": "Cinder", "default": "Tonnage, Cinder's plug-ins", "native": "Tonnage, native plug-ins"}

Figures = dict[str, dict[str, float]]


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=10_000)
    parser.add_argument("--decisions", type=int, default=50, help="decisions in each round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the medians count (%(default)s)")
    parser.add_argument(
        "--cinder-python",
        type=pathlib.Path,
        default=pathlib.Path(__file__).parents[1] / ".cinder" / "bin" / "python",
        help="Python of an environment that has Cinder and Tonnage (%(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    return parser.parse_args(words)


def measure(arguments: argparse.Namespace) -> Figures:
    """Return the figures of each scheduler. Raises NotAvailable and BenchmarkError."""
    if not arguments.cinder_python.exists():
        raise machine.NotAvailable(f"there is no {arguments.cinder_python}; run tools/install-openstack.sh cinder")
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in _TITLES}
    with machine.start(machine.servers.MariaDB) as server:
        for number in range(arguments.rounds):
            for name, found in rounds.items():
                with server.database() as cinder, server.database() as ledger:
                    found.append(_run(arguments, name, cinder, ledger))
                command.progress(f"round {number + 1}, {_TITLES[name]}: {found[-1]}")
    return {
        name: {key: round(statistics.median(each[key] for each in found), 3) for key in found[0]}
        for name, found in rounds.items()
    }


def _run(arguments: argparse.Namespace, name: str, cinder: str, ledger: str) -> dict[str, float]:
    done = subprocess.run(
        [
            *(arguments.cinder_python, _PROGRAM, name),
            *("--database", cinder.replace("charset=utf8mb4", "charset=utf8"), "--ledger", ledger),
            *("--pools", str(arguments.pools), "--decisions", str(arguments.decisions)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise command.BenchmarkError(f"{_TITLES[name]} failed: {done.stderr[-1000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(found: Figures) -> str:
    """Return the figures as a table."""
    rows = [
        [title, each["decision"], each["choice"], each["claim"], each.get("refresh", "")]
        for title, each in ((_TITLES[name], figures) for name, figures in found.items())
    ]
    return comparison_runner.table(["scheduler", "decision", "choice", "claim", "refresh"], rows)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    arguments = parse(words)
    try:
        found = measure(arguments)
    except (machine.NotAvailable, command.BenchmarkError) as error:
        print(f"cinder_scheduler: {error}", file=sys.stderr)
        return 2 if isinstance(error, machine.NotAvailable) else 1
    print(json.dumps(found) if arguments.json else show(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
