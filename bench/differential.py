#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential test: Tonnage and real Cinder decide random cases, and the docs must have a row for each difference.

Run it with the Python that Tonnage is installed in::

    python bench/differential.py
    python bench/differential.py --cases 100000 --seed 7

Cinder runs in a separate process, with its own Python. The rows are in ``docs/differences-from-cinder.rst``. Exit
status: 0; 1 if a difference has no row, or a row no difference; 2 if Cinder is not available.
"""

import argparse
import contextlib
import json
import logging
import pathlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import cinder_peer
import command
import throughput_machine as machine
from cinder_comparison import case_generator, cases, cinder_process, comparison, rows, tonnage_answers

from tonnage.capacity import type_conversion

#: Number of recorded cases of each filter, and of each row.
_OF_EACH = 20
_OF_EACH_ROW = 3

#: Number of differences without a row that are printed in full.
_SHOWN = 5


class Tally:
    """The counts of cases, answers and differences, and the differences without a row."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answers = 0
        self.differences = 0
        self.explained: Counter[str] = Counter()
        self.unexplained: list[comparison.Difference] = []

    def add(self, case: cases.Case, theirs: Any) -> set[str]:
        """Compare the answers to one case; return the rows that explain its differences."""
        self.asked[case.plugin] += 1
        self.answers += len(case.pools)
        used: set[str] = set()
        for difference in comparison.differences(case, tonnage_answers.answer(case), theirs):
            self.differences += 1
            found = rows.explaining(difference)
            used |= found
            self.explained.update(found)
            if not found:
                self.unexplained.append(difference)
        return used

    @property
    def unused(self) -> list[str]:
        """Rows that explain no difference."""
        return [name for name in rows.NAMES if not self.explained[name]]

    @property
    def good(self) -> bool:
        """Whether every difference has a row, and every row a difference."""
        return not self.unexplained and not self.unused


class Recording:
    """Some cases of every filter and every row with Cinder's answers, for tests without Cinder."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._of: Counter[str] = Counter()

    def offer(self, case: cases.Case, theirs: Any, used: set[str]) -> None:
        """Add the case if the recording has too few cases of its filter or of one of its rows."""
        lacking = [name for name in used if self._of[name] < _OF_EACH_ROW]
        if lacking or self._of[case.plugin] < _OF_EACH:
            self._of.update([case.plugin, *used])
            self._lines.append(json.dumps({"case": asdict(case), "theirs": theirs}))

    def write(self, path: pathlib.Path) -> None:
        """Write the cases, one per line."""
        path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")


def recorded(path: pathlib.Path) -> Iterator[tuple[cases.Case, Any]]:
    """Yield the cases of a recording with Cinder's answers."""
    for line in path.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        yield type_conversion.convert(one["case"], cases.Case), one["theirs"]


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=42_000)
    parser.add_argument("--seed", type=int, default=1, help="seed of the random cases (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    parser.add_argument("--record", type=pathlib.Path, metavar="FILE", help="write cases with Cinder's answers there")
    parser.add_argument("--cinder-python", type=_path, help="Python of an environment that has Cinder")
    parser.add_argument(
        "--cache",
        type=_path,
        default=pathlib.Path.home() / ".cache" / "tonnage-bench",
        help="folder for an environment with Cinder and other downloads, created if it does not exist",
    )
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Compare and print."""
    arguments = parse(words)
    logging.disable()  # the errors of random functions
    tally, recording = Tally(), Recording()
    drawn = case_generator.generate(arguments.cases, arguments.seed)
    try:
        python = _python(arguments)
        asked = case_generator.generate(arguments.cases, arguments.seed)
        with contextlib.closing(cinder_process.answers(python, arguments.cache, asked)) as answers:
            for number, (case, theirs) in enumerate(zip(drawn, answers, strict=True), start=1):
                recording.offer(case, theirs, tally.add(case, theirs))
                if number % 5000 == 0:
                    command.progress(f"{number} of {arguments.cases} cases, {tally.differences} differences")
    except (machine.NotAvailable, RuntimeError) as error:
        print(f"differential: {error}", file=sys.stderr)
        return 2
    if arguments.record is not None:
        recording.write(arguments.record)
    if arguments.json:
        print(json.dumps(_figures(tally, arguments.seed)))
    else:
        _show(tally)
    for difference in tally.unexplained[:_SHOWN]:
        what = f"{difference.part}: {difference.here!r} here, {difference.there!r} in Cinder"
        print(f"differential: no row explains {what}; {difference}", file=sys.stderr)
    for name in tally.unused:
        print(f"differential: the row '{name}' explains nothing", file=sys.stderr)
    return 0 if tally.good else 1


def _python(arguments: argparse.Namespace) -> pathlib.Path:
    if arguments.cinder_python is None:
        command.progress(f"looking for Cinder in {arguments.cache}")
        return cinder_peer.install(arguments.cache)
    cinder_peer.check(arguments.cinder_python)
    return pathlib.Path(arguments.cinder_python)


def _figures(tally: Tally, seed: int) -> dict[str, Any]:
    return {
        "cases": tally.asked.total(),
        "seed": seed,
        "answers": tally.answers,
        "differences": tally.differences,
        "unexplained": len(tally.unexplained),
        "unused_rows": tally.unused,
        "asked": dict(tally.asked),
        "rows": {name: tally.explained[name] for name in rows.NAMES},
    }


def _show(tally: Tally) -> None:
    for plugin, count in tally.asked.most_common():
        print(f"{plugin:36}{count:8} cases")
    print(f"\n{tally.answers} answers about pools, {tally.differences} of them differ\n")
    for name in rows.NAMES:
        print(f"{name:36}{tally.explained[name]:8}")
    print(f"{'no row':36}{len(tally.unexplained):8}")


def _path(text: str) -> pathlib.Path:
    return pathlib.Path(text).expanduser().absolute()


if __name__ == "__main__":
    sys.exit(main())
