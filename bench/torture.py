#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Torture test: many schedulers and agents on real servers with faults, and a check of each gigabyte.

``python bench/torture.py --help`` lists the options. The chapter "Torture" of the documentation explains the figures.
"""

import argparse
import logging
import signal
import sys
import threading
import time
from typing import NoReturn

from chaos import plan as plans
from chaos.checker import Checker
from chaos.cluster import Cluster
from chaos.faults import Faults
from chaos.figures import Figures, percentile
from chaos.history import History
from chaos.requesters import PLACED, REFUSED, Requesters, longest_gap
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

#: Longest time in seconds until all operations have ended after the last request, leases included.
_QUIET = 240.0


def main() -> None:
    """Run the test; exit with 1 if a figure is wrong."""
    options = _parse()
    console = Console(stderr=options.json)
    signal.signal(signal.SIGTERM, _interrupted)
    logging.disable()  # outages of the message bus are part of the test
    try:
        figures, examples = run(_plan(options), console, options.keep)
    except KeyboardInterrupt:
        sys.exit(130)
    if options.json:
        print(figures.line(), flush=True)
        for kind, text in examples.items():
            print(f"{kind}: {text}", file=sys.stderr)
    else:
        figures.show(console, examples)
    sys.exit(0 if figures.clean else 1)


def run(plan: plans.Plan, console: Console, keep: bool) -> tuple[Figures, dict[str, str]]:
    """Run a plan; return the figures, and an example of each kind of error."""
    stopping = threading.Event()
    with _progress(console) as progress:
        bar = progress.add_task("", total=plan.requests, status="")

        def say(text: str) -> None:
            progress.update(bar, status=text)

        with Cluster(plan, say, keep) as cluster:
            history = History(plan, cluster.engine, cluster.full_name)
            history.install()
            cluster.start()
            checker = Checker(cluster, history)
            checker.start()
            with cluster.client() as client:
                requesters = Requesters(plan, client, stopping)
                faults = Faults(cluster, lambda: requesters.done, requesters.surprises.append)
                ended = False
                began, began_at = time.monotonic(), time.time()
                requesters.start()
                faults.start()
                try:
                    while not requesters.wait(0.2):
                        struck = sum(faults.struck.values())
                        progress.update(bar, completed=requesters.done, status=f"{struck} faults")
                    seconds = time.monotonic() - began
                    progress.update(bar, completed=requesters.done)
                    say("waiting for the end of the faults")
                    ended = True
                finally:
                    stopping.set()
                    faults.stop(at_once=not ended)
                say("waiting for the end of all operations")
                deadline = time.monotonic() + _QUIET
                half = checker.half_deleted()
                while not (checker.quiet() and not half) and time.monotonic() < deadline:
                    requesters.delete_again(half)
                    time.sleep(0.5)
                    half = checker.half_deleted()
            checker.stop()
            say("checking the final state")
            rest = checker.at_rest(requesters)
            wrong = history.wrong_refusals(requesters.asked)
            if wrong:
                checker.record.note("wrong refusal", wrong[0])
            answered = [one for one in requesters.asked if one.outcome in (PLACED, REFUSED)]
            granted = [one for one in answered if one.outcome == PLACED]
            placed = [one for one in granted if one.wish.verb != "delete"]
            times = [1000 * (one.answered - one.sent) for one in answered if one.wish.verb in ("create", "group")]
            count = sum(max(1, len(one.volume_ids)) for one in placed)
            return Figures(
                requests=len(requesters.asked),
                placed=count,
                refused=len(answered) - len(granted),
                faults=dict(faults.struck),
                over_commit_gb=checker.record.over_commit_gb,
                lost=int(rest["lost"]),
                duplicates=int(rest["duplicates"]),
                drift_gb=rest["drift_gb"],
                leaked_claims=int(rest["leaked_claims"]),
                wrong_refusals=len(wrong),
                broken_invariants=checker.record.broken,
                placements_per_s=round(count / seconds, 1),
                p50_ms=round(percentile(times, 0.5), 1),
                p99_ms=round(percentile(times, 0.99), 1),
                longest_gap_s=round(longest_gap(began_at, requesters.asked), 1),
                seconds=round(seconds, 1),
                looks=checker.record.looks,
                resends=sum(one.resends for one in requesters.asked),
                orphans=int(rest["orphans"]),
                database=plan.database,
                seed=plan.seed,
                expected=plan.room_for,
            ), checker.record.examples


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=plans.DATABASES, default="postgresql")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="nodes of RabbitMQ (%(default)s)")
    parser.add_argument("--schedulers", type=int, help="scheduler processes (4; 8 with --one-pool)")
    parser.add_argument("--agents", type=int, help="agent processes (6; 1 with --one-pool)")
    parser.add_argument("--pools", type=int, default=200, help="total number of pools (%(default)s)")
    parser.add_argument("--requests", type=int, help="number of requests (2000; 1.5 per GiB with --one-pool)")
    parser.add_argument("--faults", type=int, help="number of faults, of 11 or more kinds (22; 0 with --one-pool)")
    parser.add_argument("--threads", type=int, default=48, help="number of concurrent requests (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of pools, requests and faults (%(default)s)")
    parser.add_argument(
        "--one-pool", type=int, metavar="GIB", help="use one pool of exactly this size, with volumes of 1 GiB"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON; progress goes to standard error")
    parser.add_argument("--keep", action="store_true", help="keep a copy of logs and configuration")
    return parser.parse_args()


def _plan(options: argparse.Namespace) -> plans.Plan:
    room = options.one_pool
    agents = options.agents or (6 if room is None else 1)
    requests = options.requests or (2000 if room is None else room * 3 // 2)
    faults = options.faults if options.faults is not None else (22 if room is None else 0)
    return plans.Plan(
        database=options.database,
        brokers=options.brokers,
        schedulers=options.schedulers or (4 if room is None else 8),
        agents=agents,
        pools=plans.one_pool(room) if room else plans.draw_pools(options.seed, agents, options.pools, requests),
        requests=requests,
        faults=faults,
        threads=options.threads,
        seed=options.seed,
        room_for=room,
    )


def _progress(console: Console) -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[status]}"))
    return Progress(*columns, console=console, transient=True, refresh_per_second=4)


def _interrupted(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
