#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of plans of moves: GiB copied beside the optimum, and the time of a plan for many pools.

Each of random clouds with types, zones and both bounds is planned by Tonnage, by an integer program (HiGHS, of the
package ``highspy``) and by the usual rule "smallest volume first, into the emptiest pool"::

    pip install highspy
    python bench/moves.py
    python bench/moves.py --clouds 50 --seed 7 --json
    python bench/moves.py --clouds 0 --large 1000x200

The program knows no order of moves, so it is a bound that a plan cannot always reach. ``--large 1000x200`` measures one
plan of each goal in a cloud of 1,000 pools with about 145 volumes each.

Exit status: 0; 1 if a plan reaches a goal that the program says is out of reach; 2 if the solver is not installed.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import command
import moves_cloud
from moves_cloud import Cloud

from tonnage.extensions.moves.goals import goal_loader
from tonnage.extensions.moves.planning.plan import MovePlan

#: The goals of each cloud, with their arguments.
GOALS = ("empty", "relieve", "balance", "fit")


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
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    arguments = parser.parse_args(words)
    try:
        comparisons = [
            comparison
            for seed in range(arguments.seed, arguments.seed + arguments.clouds)
            for comparison in _compare(seed, arguments.pools, arguments.volumes)
        ]
    except ImportError as error:
        print(f"moves: {error}: install the solver with pip install highspy", file=sys.stderr)
        return 2
    figures: dict[str, Any] = {"goals": [_figures(goal, comparisons) for goal in GOALS] if comparisons else []}
    if arguments.large:
        pools, volumes = map(int, arguments.large.split("x"))
        figures["large"] = _large(pools, volumes)
    print(json.dumps(figures)) if arguments.json else _show(figures)
    impossible = [
        comparison for comparison in comparisons if comparison.planned_gb is not None and comparison.optimal_gb is None
    ]
    for comparison in impossible:
        print(f"moves: the solver finds no places for {comparison}", file=sys.stderr)
    return 1 if impossible else 0


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
    return program.fewest_gib()


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


def _large(pools: int, volumes: int) -> dict[str, Any]:
    command.progress(f"a cloud of {pools} pools with about {volumes} volumes each")
    cloud = moves_cloud.draw(1, pools, volumes)
    seconds, ledger = {}, cloud.ledger()
    for goal in GOALS:
        model, goal_arguments = cloud.model(ledger), _arguments(goal, cloud)
        began = time.perf_counter()
        plan: MovePlan = goal_loader.load(goal, goal_arguments).plan(model)
        seconds[goal] = {"seconds": round(time.perf_counter() - began, 2), "moves": len(plan.moves)}
    return {"pools": pools, "volumes": len(cloud.volumes), "goals": seconds}


def _show(figures: Mapping[str, Any]) -> None:
    print(
        f"{'goal':10}{'clouds':>8}{'optimum':>9}{'planned':>9}{'greedy':>8}{'over: median':>14}{'p95':>8}{'worst':>8}"
    )
    for row in figures["goals"]:
        print(
            f"{row['goal']:10}{row['clouds']:8}{row['optimal']:9}{row['planned']:9}{row['greedy']:8}"
            f"{row['over_median_percent']!s:>12} %{row['over_p95_percent']!s:>6} %{row['over_worst_percent']!s:>6} %"
        )
    if "large" in figures:
        large = figures["large"]
        print(f"\n{large['pools']} pools, {large['volumes']} volumes")
        for goal, row in large["goals"].items():
            print(f"{goal:10}{row['seconds']:8.2f} s{row['moves']:8} moves")


if __name__ == "__main__":
    sys.exit(main())
