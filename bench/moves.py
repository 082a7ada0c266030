#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of plans of moves: GiB copied beside the optimum, and the time of a plan for many pools.

Each of random clouds with types, zones and both bounds is planned by Tonnage, by an integer program (HiGHS, of the
package ``highspy``) and by the usual rule "smallest volume first, into the emptiest pool"; and beside the two storage
strategies of OpenStack Watcher, see ``bench/moves_rules.py``::

    pip install highspy
    python bench/moves.py
    python bench/moves.py --no-optimum
    python bench/moves.py --clouds 50 --seed 7 --json
    python bench/moves.py --clouds 0 --large 1000x200

The program knows no order of moves, so it is a bound that a plan cannot always reach. ``--large 1000x200`` measures one
plan of each goal in a cloud of 1,000 pools with about 145 volumes each, and decisions in the same process meanwhile.

If a plan misses a goal for which the program knows places, another program looks for moves in stages: the fewest levels
of moves that make room for others are printed.

Exit status: 0; 1 if a plan reaches a goal that the program says is out of reach, or misses one for which moves with at
most one level exist; 2 if the solver is not installed.
"""

import argparse
import json
import math
import os
import resource
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import command
import moves_cloud
import moves_rules
from moves_cloud import Cloud

from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.planning.placed_volumes import PlacedVolumes
from tonnage.extensions.moves.planning.plan import MovePlan, PlannedMove
from tonnage.ledger.db import database

if TYPE_CHECKING:
    from moves_solver import Program, StagedProgram

#: The goals of each cloud, with their arguments.
GOALS = ("empty", "relieve", "balance", "fit")


#: Most levels of moves that make room for others which the solver looks for.
_MOST_LEVELS = 3

#: The share of physical use of the task to relieve pools, and the percentage below which Tonnage brings them.
THRESHOLD = 0.8
_BELOW = 79.99


@dataclass(frozen=True, slots=True)
class Comparison:
    """The plans for one goal in one cloud: GiB copied, None where the goal is not reached."""

    goal: str
    seed: int
    planned_gb: float | None
    optimal_gb: float | None
    greedy_gb: float | None


def main(words: Sequence[str] | None = None) -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--clouds", type=int, default=200, help="number of random clouds (%(default)s)")
    parser.add_argument("--pools", type=int, default=6, help="pools of each (%(default)s)")
    parser.add_argument("--volumes", type=int, default=8, help="volumes of a pool, about (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first cloud (%(default)s)")
    parser.add_argument("--large", metavar="POOLSxVOLUMES", help="measure the time of plans in a large cloud")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each plan in the large cloud (%(default)s)")
    parser.add_argument("--no-optimum", action="store_true", help="compare with the rules of other programs alone")
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    arguments = parser.parse_args(words)
    seeds = range(arguments.seed, arguments.seed + arguments.clouds)
    try:
        comparisons = [
            comparison
            for seed in (() if arguments.no_optimum else seeds)
            for comparison in _compare(seed, arguments.pools, arguments.volumes)
        ]
    except ImportError as error:
        print(f"moves: {error}: install the solver with pip install highspy", file=sys.stderr)
        return 2
    figures: dict[str, Any] = {"goals": [_figures(goal, comparisons) for goal in GOALS] if comparisons else []}
    figures["rules"] = _rules(seeds, arguments.pools, arguments.volumes)
    if arguments.large:
        pools, volumes = map(int, arguments.large.split("x"))
        figures["large"] = _large(pools, volumes, arguments.repeat)
    print(json.dumps(figures)) if arguments.json else _show(figures)
    impossible = [
        comparison for comparison in comparisons if comparison.planned_gb is not None and comparison.optimal_gb is None
    ]
    for comparison in impossible:
        print(f"moves: the solver finds no places for {comparison}", file=sys.stderr)
    missed = {
        (comparison.goal, comparison.seed): _levels(
            comparison.goal, comparison.seed, arguments.pools, arguments.volumes
        )
        for comparison in comparisons
        if comparison.planned_gb is None and comparison.optimal_gb is not None
    }
    for (goal, seed), levels in missed.items():
        needed = f"more than {_MOST_LEVELS}" if levels is None else levels
        print(f"moves: {goal} in cloud {seed} is missed; it takes {needed} levels of other moves", file=sys.stderr)
    return 1 if impossible or any(levels is not None and levels <= 1 for levels in missed.values()) else 0


def _compare(seed: int, pools: int, volumes: int) -> list[Comparison]:
    cloud = moves_cloud.draw(seed, pools, volumes)
    if seed % 10 == 0:
        command.progress(f"cloud {seed}")
    comparisons, ledger = [], cloud.ledger()
    for goal in GOALS:
        goal_arguments = _arguments(goal, cloud)
        plan = goal_loader.load(goal, goal_arguments).plan(cloud.model(ledger))
        comparisons.append(
            Comparison(
                goal,
                seed,
                plan.moved_gb if plan.is_reached else None,
                _optimum(goal, cloud, goal_arguments),
                _greedy(goal, cloud, goal_arguments),
            )
        )
    return comparisons


def _rules(seeds: Iterable[int], pools: int, volumes: int) -> list[dict[str, Any]]:
    """Return the sums of the outcomes of each rule over the clouds, for each of two tasks."""
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for seed in seeds:
        cloud = moves_cloud.draw(seed, pools, volumes)
        source = _arguments("empty", cloud)["target"]
        over = [pool.name for pool in cloud.pools if pool.used >= pool.total * THRESHOLD]
        tasks = {
            "empty": {
                "Tonnage": _planned(cloud, [source], [("empty", {"target": source})]),
                "Watcher": list(moves_rules.zone_migration(cloud, source)),
                "smallest first": list(moves_rules.smallest_first(cloud, [source], None)),
            },
            "relieve": {
                "Tonnage": _planned(cloud, over, [("relieve", {"pool": name, "below": _BELOW}) for name in over]),
                "Watcher": list(moves_rules.capacity_balance(cloud, THRESHOLD)),
                "smallest first": list(moves_rules.smallest_first(cloud, over, THRESHOLD)),
            },
        }
        for task, rules in tasks.items():
            for rule, moves in rules.items():
                if task == "empty":
                    outcome = moves_rules.emptied(cloud, source, moves)
                else:
                    outcome = moves_rules.relieved(cloud, THRESHOLD, moves)
                sums[task, rule].update(asdict(outcome) | {"clouds": 1, "done": not outcome.unmoved})
    return [{"task": task, "rule": rule, **counts} for (task, rule), counts in sums.items()]


def _planned(
    cloud: Cloud, sources: Iterable[str], goals: Iterable[tuple[str, Mapping[str, Any]]]
) -> list[moves_rules.Move]:
    """Return the moves of Tonnage for some goals, one after another. As in the other rules no source takes a volume."""
    volumes = {volume.id: volume for volume in cloud.volumes}
    model = cloud.model(cloud.ledger())
    model.sources.update(sources)
    planned: Sequence[PlannedMove] = ()
    for goal, goal_arguments in goals:
        planned = goal_loader.load(goal, goal_arguments).plan(model).moves
    return [(volumes[move.volume_id], move.target) for move in planned]


def _arguments(goal: str, cloud: Cloud) -> Mapping[str, Any]:
    """Return the arguments of a goal: about the fullest pool, or a volume that is somewhat too large."""
    fullest = max(cloud.pools, key=lambda pool: (pool.promised / pool.limit, pool.name))
    if goal == "empty":
        return {"target": fullest.name}
    if goal == "relieve":
        return {"pool": fullest.name, "below": round(80 * fullest.promised / fullest.limit), "bound": "promised"}
    if goal == "balance":
        return {"points": 15}
    rooms = (min(pool.limit - pool.promised, pool.total - pool.used) for pool in cloud.pools)
    return {"size": max(1, round(max(rooms) * 1.3)), "zone": ""}


def _optimum(goal: str, cloud: Cloud, arguments: Mapping[str, Any]) -> float | None:
    from moves_solver import Program

    program = Program(cloud)
    _demand(program, goal, cloud, arguments)
    return program.fewest_gib()


def _levels(goal: str, seed: int, pools: int, volumes: int) -> int | None:
    """Return the fewest levels of other moves of a plan that reaches a goal; None if there are more than the most."""
    from moves_solver import StagedProgram

    cloud = moves_cloud.draw(seed, pools, volumes)
    for levels in range(_MOST_LEVELS + 1):
        program = StagedProgram(cloud, levels + 1)
        _demand(program, goal, cloud, _arguments(goal, cloud))
        if program.is_possible():
            return levels
    return None


def _demand(program: "Program | StagedProgram", goal: str, cloud: Cloud, arguments: Mapping[str, Any]) -> None:
    """Let a program reach a goal."""
    if goal == "empty":
        program.leave([arguments["target"]])
    elif goal == "relieve":
        [pool] = [pool for pool in cloud.pools if pool.name == arguments["pool"]]
        program.limit(pool.name, pool.limit * arguments["below"] / 100)
    elif goal == "balance":
        mean = sum(pool.promised for pool in cloud.pools) / sum(pool.limit for pool in cloud.pools)
        for pool in cloud.pools:
            program.limit(pool.name, pool.limit * (mean + arguments["points"] / 100))
    else:
        program.add(arguments["size"], arguments["zone"])


def _greedy(goal: str, cloud: Cloud, arguments: Mapping[str, Any]) -> float | None:
    """Return the GiB of the rule "smallest first, into the pool with the most room", None if it does not end well."""
    promised = {pool.name: float(pool.promised) for pool in cloud.pools}
    used = {pool.name: pool.used for pool in cloud.pools}
    pools = {pool.name: pool for pool in cloud.pools}
    mean = sum(promised.values()) / sum(pool.limit for pool in cloud.pools)
    highest = mean + arguments.get("points", 0) / 100

    def excess(name: str) -> float:
        if goal == "empty":
            return promised[name] if name == arguments["target"] else 0.0
        if goal == "relieve":
            return promised[name] - pools[name].limit * arguments["below"] / 100 if name == arguments["pool"] else 0.0
        return promised[name] - pools[name].limit * highest

    if goal == "fit":
        return None
    copied = 0
    for volume in sorted(cloud.volumes, key=lambda volume: (volume.size, volume.id)):
        if excess(volume.pool) <= 0:
            continue
        rooms = [
            (min(pool.limit - promised[name], pool.total - used[name]), name)
            for name, pool in pools.items()
            if name != volume.pool and volume.may_be_in(pool) and (goal != "balance" or excess(name) < 0)
        ]
        room, target = max(rooms, default=(0.0, ""))
        if room < volume.size:
            continue
        for name, sign in ((target, 1), (volume.pool, -1)):
            promised[name] += sign * volume.size
        used[target] += volume.size
        used[volume.pool] -= 0 if pools[volume.pool].thin else volume.size
        copied += volume.size
    return copied if all(excess(name) <= 0 for name in pools) else None


def _figures(goal: str, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    of_goal = [comparison for comparison in comparisons if comparison.goal == goal]
    both = [
        (comparison.planned_gb, comparison.optimal_gb)
        for comparison in of_goal
        if comparison.planned_gb is not None and comparison.optimal_gb is not None
    ]
    over = sorted(100 * (planned - optimal) / optimal if optimal else 0.0 for planned, optimal in both)
    return {
        "goal": goal,
        "clouds": len(of_goal),
        "optimal": sum(comparison.optimal_gb is not None for comparison in of_goal),
        "planned": sum(comparison.planned_gb is not None for comparison in of_goal),
        "greedy": sum(comparison.greedy_gb is not None for comparison in of_goal),
        "over_median_percent": round(statistics.median(over), 1) if over else None,
        "over_p95_percent": round(over[int(0.95 * (len(over) - 1))], 1) if over else None,
        "over_worst_percent": round(over[-1], 1) if over else None,
        "missed": [c.seed for c in of_goal if c.planned_gb is None and c.optimal_gb is not None],
        "worst": [
            c.seed for c in of_goal if c.planned_gb is not None and c.optimal_gb and c.planned_gb > 1.25 * c.optimal_gb
        ],
    }


def _large(pools: int, volumes: int, repeat: int) -> dict[str, Any]:
    """Measure plans in a large cloud, and decisions in another thread of the process meanwhile."""
    command.progress(f"a cloud of {pools} pools with about {volumes} volumes each")
    cloud = moves_cloud.draw(1, pools, volumes)
    ledger = cloud.ledger()
    figures: dict[str, Any] = {"pools": pools, "volumes": len(cloud.volumes), "load_before": os.getloadavg()[0]}
    figures["alone_ms"] = _quantiles(_decisions(cloud, ledger, threading.Event(), 2.0))
    goals: dict[str, dict[str, Any]] = {}
    for goal in GOALS:
        runs = []
        for number in range(repeat):
            runs.append(_large_plan(cloud, ledger, goal))
            command.progress(
                f"{goal}, run {number + 1}: {runs[-1]['seconds']} s, {runs[-1]['processor_s']} s of processor"
            )
        goals[goal] = {
            "seconds": statistics.median(run["seconds"] for run in runs),
            "processor_s": statistics.median(run["processor_s"] for run in runs),
            "moves": runs[0]["moves"],
            "beside_ms": _quantiles([sample for run in runs for sample in run["decisions"]]),
        }
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return figures | {"goals": goals, "load_after": os.getloadavg()[0], "peak_mib": peak_mib}


def _large_plan(cloud: Cloud, ledger: database.Database, goal: str) -> dict[str, Any]:
    """Make a plan, and decide in another thread meanwhile."""
    model, goal_arguments = cloud.model(ledger), _arguments(goal, cloud)
    decider, ended = _Decider(cloud, ledger), threading.Event()
    with futures.ThreadPoolExecutor(1) as thread:
        decisions = thread.submit(decider.decide, ended, math.inf)
        began, processor = time.perf_counter(), time.thread_time()
        try:
            plan: MovePlan = goal_loader.load(goal, goal_arguments).plan(model)
        finally:
            ended.set()
        seconds, processor_s = time.perf_counter() - began, time.thread_time() - processor
    return {
        "seconds": round(seconds, 2),
        "processor_s": round(processor_s, 5),
        "moves": len(plan.moves),
        "decisions": decisions.result(),
    }


def _decisions(cloud: Cloud, ledger: database.Database, ended: threading.Event, seconds: float) -> list[float]:
    return _Decider(cloud, ledger).decide(ended, seconds)


class _Decider:
    """Decides the same request on a copy of the pools of its own, a hundred times a second."""

    def __init__(self, cloud: Cloud, ledger: database.Database) -> None:
        self._model = cloud.model(ledger)
        [volume] = PlacedVolumes(ledger).read([cloud.volumes[0].id]).values()
        self._request = self._model.request_of(volume)

    def decide(self, ended: threading.Event, seconds: float) -> list[float]:
        """Return the milliseconds of each decision until the event or for some seconds."""
        samples: list[float] = []
        until = time.perf_counter() + seconds
        while not ended.wait(0.01) and time.perf_counter() < until:
            began = time.perf_counter()
            self._model.rules.choose(self._model.pools, self._request)
            samples.append(1000 * (time.perf_counter() - began))
        return samples


def _quantiles(samples: Sequence[float]) -> dict[str, float] | None:
    """Return the median and the 95 % quantile; None for too few samples."""
    if len(samples) < 20:
        return None
    ordered = sorted(samples)
    return {"p50": round(statistics.median(ordered), 2), "p95": round(ordered[int(0.95 * len(ordered))], 2)}


def _show(figures: Mapping[str, Any]) -> None:
    print(
        f"{'goal':10}{'clouds':>8}{'optimum':>9}{'planned':>9}{'greedy':>8}{'over: median':>14}{'p95':>8}{'worst':>8}"
    )
    for row in figures["goals"]:
        print(
            f"{row['goal']:10}{row['clouds']:8}{row['optimal']:9}{row['planned']:9}{row['greedy']:8}"
            f"{row['over_median_percent']!s:>12} %{row['over_p95_percent']!s:>6} %{row['over_worst_percent']!s:>6} %"
        )
    print(f"\n{'task':10}{'rule':18}{'clouds':>8}{'done':>7}{'GiB moved':>11}{'bounds passed':>15}{'left':>7}")
    for row in figures["rules"]:
        print(
            f"{row['task']:10}{row['rule']:18}{row['clouds']:8}{row['done']:7}{row['moved_gb']:11}{row['passed']:15}"
            f"{row['unmoved']:7}"
        )
    if "large" in figures:
        large = figures["large"]
        print(f"\n{large['pools']} pools, {large['volumes']} volumes; decisions alone: {large['alone_ms']}")
        for goal, row in large["goals"].items():
            times = f"{row['seconds']:8.2f} s, processor {row['processor_s']:.2f} s"
            print(f"{goal:10}{times}{row['moves']:8} moves; decisions beside: {row['beside_ms']}")
        load = f"{large['load_before']:.1f} to {large['load_after']:.1f}"
        print(f"peak {large['peak_mib']} MiB; load of the machine {load}")


if __name__ == "__main__":
    sys.exit(main())
