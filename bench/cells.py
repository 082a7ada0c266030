#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulation of an installation of cells, each with a ledger of its own, beside a twin with one ledger for all of them.

No server runs: events follow one another in the order of their times, and a seed repeats a run. Projects of very
different sizes request volumes, and groups of two volumes in different cells. A router chooses the cell of each volume
by figures that are some seconds old, the cells lend each other parts of the projects' quotas, and one cell is lost for
a time. Each policy of lending gets the same requests, and so does the twin::

    python bench/cells.py
    python bench/cells.py --cells 64 --spread 2 --seed 2

After each step the volumes are compared with the capacities and the quotas, and after each 5,000 steps all counters
with the sums over the volumes. ``--arithmetic`` prints the loads of one ledger with 10^8 volumes instead, for which it
measures the size of volumes in an SQLite file and the comparison of a listing::

    python bench/cells.py --arithmetic

Exit status: 0; 1 if a pool had more volumes than its capacity or a project more than its quota.
"""

import argparse
import json
import math
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import cells_arithmetic as arithmetic
import command
from cells_simulation import POLICIES, Cause, Exceeded, Outcome, Scenario, make_world, simulate

_DEFAULT = Scenario()
_LARGE = arithmetic.Installation()


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--cells", type=_number(2), default=_DEFAULT.cells)
    add("--pools", type=_number(1), default=_DEFAULT.pools, help="pools of a cell")
    add("--projects", type=_number(1), default=_DEFAULT.projects)
    add("--requests", type=_number(1), default=_DEFAULT.requests, help="requests after the warm-up")
    add("--life", type=_positive, default=_DEFAULT.life, help="seconds that a volume lives in the mean")
    add("--taken", type=_positive, default=_DEFAULT.taken, help="requested share of all capacity")
    add("--spread", type=_number(0), default=_DEFAULT.spread, help="cells of a project while they have room; 0: all")
    add("--interval", type=_positive, default=_DEFAULT.interval, help="seconds between the figures of a cell")
    add("--tries", type=_number(1), default=_DEFAULT.tries, help="cells that are tried for a volume")
    add("--groups", type=_share, default=_DEFAULT.groups, help="share of groups among the requests")
    add("--crashes", type=_share, default=_DEFAULT.crashes, help="share of groups whose coordinator crashes")
    add("--lost", type=_seconds, default=_DEFAULT.lost, help="seconds for which a cell is lost")
    add("--seed", type=int, default=_DEFAULT.seed)
    add("--arithmetic", action="store_true", help="print the loads of one ledger, and simulate nothing")
    add("--volumes", type=_positive, default=_LARGE.volumes, help="volumes of the arithmetic")
    add("--days", type=_positive, default=_LARGE.life, help="days that a volume of the arithmetic lives")
    add("--per-pool", type=_positive, default=_LARGE.per_pool, help="volumes of a pool of the arithmetic")
    add("--listed", type=_number(1), default=100_000, help="volumes that the arithmetic measures")
    add("--json", action="store_true", help="print one line of JSON and no table")
    chosen = parser.parse_args(words)
    if chosen.spread > chosen.cells:
        parser.error(f"argument --spread: {chosen.spread} is more than the {chosen.cells} cells of --cells")
    if chosen.lost > chosen.requests / _DEFAULT.rate:
        parser.error(f"argument --lost: {chosen.requests} requests take only {chosen.requests / _DEFAULT.rate:g} s")
    return chosen


def _number(least: int) -> Any:
    def convert(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return convert


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def _seconds(text: str) -> float:
    return 0.0 if text == "0" else _positive(text)


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share between 0 and 1")
    return share


def scenario(options: argparse.Namespace) -> Scenario:
    """Return the scenario that the options describe."""
    names = [field.name for field in fields(Scenario) if hasattr(options, field.name)]
    return Scenario(**{name: getattr(options, name) for name in names})


def figures(outcome: Outcome) -> dict[str, Any]:
    """Return the figures of a policy as JSON has them. Refusals are per 1,000 requests."""
    thousand = 1000 / outcome.requests
    seconds, cells = outcome.seconds, len(outcome.per_cell)
    return {
        "policy": outcome.policy,
        "requests": outcome.requests,
        "refused_by_one_ledger": outcome.refused_by_one_ledger * thousand,
        "refused": outcome.refused * thousand,
        "refused_by_cells_alone": outcome.causes.total() * thousand,
        "refused_by_one_ledger_alone": outcome.admitted_by_cells_alone * thousand,
        "causes": {cause.value: outcome.causes[cause] * thousand for cause in Cause},
        "requests_while_lost": outcome.requests_while_lost,
        "refused_while_lost": {cause.value: outcome.causes_while_lost[cause] for cause in Cause},
        "messages_per_request": outcome.messages / outcome.requests,
        "waits_per_request": outcome.waits / outcome.requests,
        "tries_per_second_of_a_cell": sum(outcome.per_cell) / seconds / cells,
        "tries_per_second_of_the_busiest_cell": max(outcome.per_cell) / seconds,
        "steps": outcome.steps,
    }


def table(size: Scenario, outcomes: Sequence[Outcome]) -> str:
    """Return the figures of all policies as a table."""
    rows = [figures(outcome) for outcome in outcomes]
    first = outcomes[0]
    lines = [
        f"{size.cells} cells of {size.pools} pools, {size.projects} projects, {first.requests} requests, "
        f"{size.rate:g} a second, seed {size.seed}",
        f"one ledger refuses {rows[0]['refused_by_one_ledger']:.2f} of 1,000 requests",
        "",
        "refusals of 1,000 requests that one ledger would not have made, by cause",
        f"{'policy':<26}{'all':>8}" + "".join(f"{cause.value:>22}" for cause in Cause),
    ]
    lines += [
        f"{row['policy']:<26}{row['refused_by_cells_alone']:>8.2f}"
        + "".join(f"{row['causes'][cause.value]:>22.2f}" for cause in Cause)
        for row in rows
    ]
    lines += [
        "",
        f"{'policy':<26}{'messages/request':>18}{'loans waited for':>18}{'tries/s a cell':>16}{'busiest':>9}"
        f"{'only one ledger refuses':>25}",
    ]
    lines += [
        f"{row['policy']:<26}{row['messages_per_request']:>18.3f}{row['waits_per_request']:>18.3f}"
        f"{row['tries_per_second_of_a_cell']:>16.2f}{row['tries_per_second_of_the_busiest_cell']:>9.2f}"
        f"{row['refused_by_one_ledger_alone']:>25.2f}"
        for row in rows
    ]
    if size.lost:
        lines += [
            "",
            f"while a cell was lost, {size.lost:g} s, {first.requests_while_lost} requests arrived: "
            "one ledger that is lost for this time refuses all of them",
            f"{'policy':<26}{'all':>8}" + "".join(f"{cause.value:>22}" for cause in Cause),
        ]
        lines += [
            f"{row['policy']:<26}{sum(row['refused_while_lost'].values()):>8}"
            + "".join(f"{row['refused_while_lost'][cause.value]:>22}" for cause in Cause)
            for row in rows
        ]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Simulate and print, or measure the unit costs and print the arithmetic."""
    options = arguments(words)
    if options.arithmetic:
        return _print_arithmetic(options)
    size = scenario(options)
    world = make_world(size)
    outcomes: list[Outcome] = []
    began = time.process_time()
    try:
        for outcome in simulate(world, POLICIES):
            outcomes.append(outcome)
            command.progress(
                f"{outcome.policy}: {outcome.steps} steps, {time.process_time() - began:.0f} s of processor"
            )
    except Exceeded as error:
        print(f"cells: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"scenario": asdict(size), "policies": [figures(outcome) for outcome in outcomes]}))
    else:
        print(table(size, outcomes))
    return 0


def _print_arithmetic(options: argparse.Namespace) -> int:
    command.progress(f"measuring {options.listed} volumes in an SQLite file")
    with tempfile.TemporaryDirectory(prefix="tonnage-cells-") as folder:
        costs = arithmetic.measure(pathlib.Path(folder), options.listed)
    size = arithmetic.Installation(volumes=options.volumes, life=options.days, per_pool=options.per_pool)
    if options.json:
        loads = [asdict(line) for line in arithmetic.lines(size, costs)]
        print(json.dumps({"installation": asdict(size), "costs": asdict(costs), "loads": loads}))
    else:
        print(arithmetic.table(size, costs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
