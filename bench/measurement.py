# SPDX-License-Identifier: Apache-2.0
"""The measurement of a load, for the benchmarks of placements and of the REST API.

The client is a process that runs :func:`load.talk`. If Cinder is not available, there is no ratio.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import cinder_peer
import command
import psutil
import throughput_machine as machine

CINDER = "cinder"

_Figures = TypeVar("_Figures")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A client that sends requests, and the process ids of the servers by group."""

    client: Any
    groups: Mapping[str, Sequence[int]]
    warm_up: float
    seconds: float
    #: Returns the number of placed volumes.
    placed: Callable[[], int] = lambda: 0

    def measure(self, about: str) -> "Window":
        """Start the load and measure it after the warm-up. The load continues until :meth:`stop`."""
        fsyncs = machine.fsyncs_per_second()
        usage = machine.Usage({**self.groups, "client": [self.client.pid]})
        command.progress(f"{about}: {self.warm_up:g} s to warm up, then {self.seconds:g} s")
        machine.ask(self.client, "go")
        time.sleep(self.warm_up)
        before, placed = json.loads(machine.ask(self.client, "mark")), self.placed()
        usage.begin()
        psutil.cpu_percent()
        began = time.monotonic()
        time.sleep(self.seconds)
        after, placed = json.loads(machine.ask(self.client, "mark")), self.placed() - placed
        elapsed = time.monotonic() - began
        used = usage.end()
        busy = psutil.cpu_percent() / 100 * (os.cpu_count() or 1)
        answered = sorted(after["seconds"][len(before["seconds"]) :])
        others = max(0.0, busy - sum(used.values()))
        return Window(answered, elapsed, used, others, fsyncs, placed, before, after)

    def stop(self) -> dict[str, Any]:
        """Stop the load; return all its counts."""
        counts: dict[str, Any] = json.loads(machine.ask(self.client, "stop"))
        return counts


@dataclass(frozen=True, slots=True)
class Window:
    """The figures between two marks. ``seconds`` are the sorted times of the answers.

    ``used`` and ``others_cpus`` are numbers of processors: used by each group of processes, and by other work on the
    machine. ``before`` and ``after`` are the client's counts at the two marks.
    """

    seconds: Sequence[float]
    elapsed: float
    used: Mapping[str, float]
    others_cpus: float
    fsyncs: float
    placed: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def require_answers(self, about: str) -> None:
        """Raise :class:`~command.BenchmarkError` if there was no answer."""
        if not self.seconds:
            raise command.BenchmarkError(f"{about}: nothing was answered in {self.elapsed:.0f} s")

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.seconds) / self.elapsed

    @property
    def cpu_ms(self) -> dict[str, float]:
        """Milliseconds of processor time per answer, by group of processes."""
        return {name: share / self.rate * 1000 for name, share in self.used.items()}

    def quantile_ms(self, share: float) -> float:
        """Return the quantile of the answer times in milliseconds; ``share`` is 0 to 1."""
        return self.seconds[min(len(self.seconds) - 1, int(share * len(self.seconds)))] * 1000


def add_arguments(parser: argparse.ArgumentParser, variants: Sequence[str], each: str) -> None:
    """Add the options for variants, durations and rounds. ``each`` names the measured unit in the help."""
    known = list(variants)
    parser.add_argument("--variants", type=command.listed(known), default=known, help=f"list of {','.join(known)}")
    parser.add_argument("--seconds", type=float, default=20.0, help=f"duration of the measurement of {each}")
    parser.add_argument("--warm-up", type=float, default=5.0, help="seconds before the measurement")
    parser.add_argument("--rounds", type=int, default=1, help="number of rounds; ratios use the medians")
    cinder_peer.add_arguments(parser)


def main(
    name: str,
    arguments: argparse.Namespace,
    *,
    with_cinder: bool,
    run: Callable[[], Iterable[_Figures]],
    in_short: Callable[[_Figures], str],
    as_data: Callable[[Sequence[_Figures]], dict[str, Any]],
    as_table: Callable[[Sequence[_Figures]], str],
) -> int:
    """Find Cinder if it is requested, then measure and print; return the exit status."""
    missing = None
    if with_cinder:
        # Before the measurement, which takes minutes.
        try:
            arguments.cinder_python = cinder_peer.asked_for(arguments)
        except machine.NotAvailable as error:
            if arguments.cinder_python is not None:
                print(f"{name}: --cinder-python: {error}", file=sys.stderr)
                return 2
            missing = f"NO RATIO TO CINDER: {error}"
            command.progress(missing)
            arguments.variants = [variant for variant in arguments.variants if variant != CINDER]
    measured, good = command.collect(name, run(), in_short)
    if not (good or measured):
        return 1
    if arguments.json:
        print(json.dumps({"cinder": missing is None, **as_data(measured)}))
    else:
        print(as_table(measured))
    if missing is not None:
        print(f"\n{missing}", file=sys.stderr)
        return 2 if good else 1
    return int(not good)
