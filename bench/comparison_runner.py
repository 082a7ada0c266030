# SPDX-License-Identifier: Apache-2.0
"""The runner of the same measurement for Tonnage and for Cinder, each in a separate process."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import cinder_peer
import command
import throughput_machine as machine

Figures: TypeAlias = dict[str, Any]

_HERE = pathlib.Path(__file__).parent


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of both benchmarks."""
    mine = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    mine.add_argument("--pools", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="numbers of pools")
    mine.add_argument("--seconds", type=float, default=5.0, help="duration of the measurement of each figure")
    mine.add_argument("--json", action="store_true", help="print a line of JSON for each number of pools and no table")
    mine.add_argument("--peer", action="store_true", help="measure Cinder's own scheduler as well")
    mine.add_argument(
        "--whole-up-to",
        type=int,
        default=10_000,
        metavar="POOLS",
        help="measure the whole scheduler up to this number of pools (%(default)s)",
    )
    cinder_peer.add_arguments(mine)
    return mine


def run(name: str, arguments: argparse.Namespace, show: Callable[[Sequence[Figures]], str]) -> int:
    """Run the measurement ``name`` for both and print it; return the exit status: 2 if Cinder is not available."""
    python = missing = None
    if arguments.peer:
        try:
            python = cinder_peer.asked_for(arguments)
        except machine.NotAvailable as error:
            if arguments.cinder_python is not None:
                print(f"{name}: --cinder-python: {error}", file=sys.stderr)
                return 2
            missing = f"NO RATIO TO CINDER: {error}"
    found = []
    for pools in arguments.pools:
        words = [name, "--pools", str(pools), "--seconds", str(arguments.seconds)]
        whole = ["--whole"] if pools <= arguments.whole_up_to else []
        command.progress(f"{pools} pools: Tonnage")
        figures: Figures = {"pools": pools, **_measured(sys.executable, "tonnage_in_process.py", *words, *whole)}
        if python is not None:
            command.progress(f"{pools} pools: Cinder {cinder_peer.RELEASE}")
            figures["peer"] = _measured(str(python), "cinder_in_process.py", *words)
        for one in (figures, figures.get("peer", {})):
            if "decision_ms" in one:
                one["decisions_per_s"] = round(1000 / one["decision_ms"]["cpu_median"], 1)
        found.append(figures)
        if arguments.json:
            print(json.dumps(figures), flush=True)
    if not arguments.json:
        print(show(found))
    if missing is not None:
        print(f"\n{missing}", file=sys.stderr)
        return 2
    return 0


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with right-aligned columns. None becomes an empty cell."""
    texts = [[*heads], *([_text(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in texts]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def ratio(peer: float | None, mine: float) -> float | None:
    """Return the ratio of Cinder's time to Tonnage's, as a whole number."""
    return None if peer is None else round(peer / mine)


def _measured(python: str, script: str, *words: str) -> Figures:
    """Return the figures that a script prints.

    Raises :class:`~command.BenchmarkError` with the end of its error output if it fails.
    """
    with tempfile.TemporaryDirectory(prefix="tonnage-bench-") as folder:
        done = subprocess.run(
            [python, "-W", "ignore", str(_HERE / script), *words],
            cwd=folder,
            env=machine.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise command.BenchmarkError(f"{script} {' '.join(words)} failed: {done.stderr.strip()[-500:]}")
    figures: Figures = json.loads(done.stdout.strip().rpartition("\n")[2])
    return figures


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if value < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
