#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of history, forecasts and refusals to come, and of the decisions that are made meanwhile.

The whole scheduler runs in this process, with its ledger in SQLite and synthetic pools with a history of 121 days. Run
it with the Python that Tonnage is installed in::

    python bench/history.py --pools 10000

The first table has the processor time and the memory of each work. The second has the duration of decisions, asked for
one at a time, while another thread does that work, with the rests that it has in a scheduler, and beside them the
duration of decisions alone, right before. The figures are medians of the rounds, also the ratio. A scrape is one of the
page /metrics/ledger every 15 s, so ``--seconds`` should be a multiple of 15.
"""

import argparse
import datetime
import functools
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable

import comparison_runner
import numpy as np
import sqlalchemy as sa
from tonnage_in_process import Whole

from tonnage.api.monitoring.ledger_page import LedgerPage
from tonnage.extensions.history import last_forecasts, tables
from tonnage.extensions.history.api.history_metrics import HistorySeries
from tonnage.extensions.history.daily_forecasts import Forecaster
from tonnage.extensions.history.history_thread import Forecasts, HistoryThread
from tonnage.extensions.history.history_writer import DAY, HistoryWriter
from tonnage.extensions.history.refusal_forecasts import RefusalForecaster
from tonnage.ledger import models

_DAYS = 121
_SCRAPES_EVERY = 15.0
_MIB = 1024
_PART = 500
#: Volumes of the type that are created on each day.
_CREATES = 60

_WORKS = ["scrapes", "refusals to come", "forecasts"]

_NewWork = Callable[[], Callable[[threading.Event], object]]


class _Turns:
    """One scheduler, whose turn it always is."""

    def has_turn(self, work: str) -> bool:
        """Return True."""
        return True


def fill(engine: sa.Engine) -> None:
    """Add rows of days up to yesterday for all pools and the volume type."""
    random = np.random.default_rng(1)
    with engine.begin() as connection:
        today = connection.execute(sa.select(models.utcnow())).scalar_one()
        ids = list(connection.scalars(sa.select(models.Pool.id)))
        [type_id] = connection.scalars(sa.select(models.VolumeType.id))
        last = today.replace(hour=0, minute=0, second=0, microsecond=0) - datetime.timedelta(days=1)
        slots = [last - datetime.timedelta(days=ago) for ago in reversed(range(_DAYS))]
        zero = ("in_flight_max", "allocated", "created", "deleted", "moved", "deleted_sum", "moved_sum")
        same = {"grain": DAY, "samples": 144, "total_gb": 10_000.0, "physical_limit_gb": 9_500.0}
        same |= {"virtual_limit_gb": 95_000.0, **{f"{name}_gb": 0 for name in zero}}
        for start in range(0, len(ids), _PART):
            rows = []
            for pool_id in ids[start : start + _PART]:
                used = np.cumsum(random.normal(25, 15, _DAYS)).clip(min=0.0)
                for slot, now in zip(slots, used.tolist(), strict=True):
                    least = {"used_gb": now, "used_min_gb": now, "used_max_gb": now, "provisioned_gb": 2 * now}
                    rows.append({**same, **least, "pool_id": pool_id, "slot": slot})
            connection.execute(sa.insert(tables.PoolHistory), rows)
        kind = {"grain": DAY, "type_id": type_id, "samples": 144, "volumes": 0, "allocated_gb": 0}
        flows = {"creates": _CREATES, "created_gb": 10 * _CREATES, "deleted_gb": 0, "retyped_gb": 0}
        connection.execute(sa.insert(tables.TypeHistory), [{**kind, **flows, "slot": slot} for slot in slots])


def forget_forecasts(scheduler: Whole) -> None:
    """Delete all forecasts, so that they are made again."""
    with scheduler.ledger.engine.begin() as connection:
        for table in (tables.PoolForecast, tables.ComingRefusals):
            connection.execute(sa.delete(table))


def read_forecasts(scheduler: Whole) -> None:
    """Read the last forecasts with their hit rates, as the command does."""
    with scheduler.ledger.reading() as session:
        last_forecasts.latest(session, hits=True)


def cost(name: str, work: Callable[[], object]) -> list[object]:
    """Return the name of a work, its processor time, its duration, and by how much it raised the peak of memory."""
    before, used, began = _peak(), time.process_time(), time.perf_counter()
    work()
    times = [f"{time.process_time() - used:.2f}", f"{time.perf_counter() - began:.2f}"]
    return [name, *times, round((_peak() - before) / _MIB)]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def durations(scheduler: Whole, seconds: float, meanwhile: Callable[[threading.Event], object]) -> list[float]:
    """Return the number of decisions, and three quantiles of their duration in ms, while a thread does other work."""
    end = threading.Event()
    thread = threading.Thread(target=meanwhile, args=(end,))
    thread.start()
    found = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        scheduler.place(1)
        found.append((time.perf_counter() - began) * 1000)
        # Half of the processor's time is free, as in a scheduler that is not overloaded.
        time.sleep(found[-1] / 1000)
    end.set()
    thread.join()
    shares = statistics.quantiles(found, n=100)
    return [len(found), *(shares[number - 1] for number in (50, 95, 99))]


def beside(scheduler: Whole, name: str, rounds: int, seconds: float, new_work: _NewWork) -> list[object]:
    """Return the row of the second table for a work."""
    alone, together, ratios = [], [], []
    for _ in range(rounds):
        alone.append(durations(scheduler, seconds, lambda end: None))
        together.append(durations(scheduler, seconds, new_work()))
        ratios.append(together[-1][2] / alone[-1][2])
    first, second = ([statistics.median(column) for column in zip(*found, strict=True)] for found in (alone, together))
    figures = (f"{one:.1f} / {other:.1f}" for one, other in zip(first[1:], second[1:], strict=True))
    return [name, f"{first[0]:.0f} / {second[0]:.0f}", *figures, f"{statistics.median(ratios):.2f}"]


def main() -> int:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pools", type=int, default=10_000, help="number of pools")
    arguments.add_argument("--seconds", type=float, default=15.0, help="duration of a round")
    arguments.add_argument("--rounds", type=int, default=3, help="rounds of the second table")
    arguments.add_argument("--works", nargs="+", choices=_WORKS, default=_WORKS, help="works of the second table")
    given = arguments.parse_args()
    scheduler = Whole(given.pools)
    scheduler.place(1)
    print("filling the history", file=sys.stderr)
    fill(scheduler.ledger.engine)
    database = scheduler.ledger
    decisions = scheduler.core.decisions
    page = LedgerPage(database, 3600.0, given.pools, 0.0, [HistorySeries(given.pools)])

    def new_refusals() -> RefusalForecaster:
        return RefusalForecaster(database, decisions.simulator, decisions.snapshots)

    rows = [
        cost("sample", lambda: HistoryWriter(database, 3600.0).sample()),
        cost("forecasts", lambda: Forecaster(database).work(lambda: True)),
        cost("reading them", lambda: read_forecasts(scheduler)),
        cost("refusals to come", lambda: new_refusals().work(lambda: True)),
        cost("scrape", page.compressed),
    ]
    print(comparison_runner.table(["work", "processor s", "seconds", "MiB more"], rows), flush=True)

    def forecasts(end: threading.Event, forecaster: Forecasts) -> None:
        history = HistoryThread(HistoryWriter(database, 3600.0), [forecaster], _Turns())
        worker = threading.Thread(target=history.work)
        worker.start()
        end.wait()
        history.stop()
        worker.join()

    def scrapes(end: threading.Event) -> None:
        while not end.is_set():
            page.compressed()
            end.wait(_SCRAPES_EVERY)

    def unmade(new: Callable[[], Forecasts]) -> Callable[[threading.Event], object]:
        forget_forecasts(scheduler)
        return functools.partial(forecasts, forecaster=new())

    works: dict[str, _NewWork] = {
        "scrapes": lambda: scrapes,
        "refusals to come": lambda: unmade(new_refusals),
        "forecasts": lambda: unmade(lambda: Forecaster(database)),
    }
    rows = [beside(scheduler, name, given.rounds, given.seconds, works[name]) for name in given.works]
    heads = ["meanwhile", "decisions, alone / beside", "p50 ms", "p95 ms", "p99 ms", "p95 beside by alone"]
    print(comparison_runner.table(heads, rows))
    scheduler.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
