#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the ledger's rules away, one at a time, and sees which tests notice.

Each rule is a small change of the real code, made in a copy of the tree; the tests that guard it then have to fail. A
rule that survives is one that no test guards. Prints a table; the exit code is 0 if every rule was killed, 1 if one
survived, 2 if the table no longer fits the code or the tests fail without any change.

Run it with the Python that has the test requirements: ``.venv/bin/python tools/mutations.py [--only WORD] [--jobs N]``.
"""

import argparse
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from concurrent import futures

from mutation_table import MUTATIONS, Mutation

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Seconds after which tests that hang count as failed.
_PATIENCE = 300

#: The exit code of pytest if no test was run.
_NO_TESTS = 5

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def main() -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        description="Take the ledger's rules away, one at a time, and see which tests notice."
    )
    parser.add_argument("--only", default="", metavar="WORD", help="only rules whose name or file has this in it")
    parser.add_argument("--quick", action="store_true", help="only a handful of rules")
    parser.add_argument("--jobs", type=int, default=2, help="how many rules to try side by side (default: 2)")
    parser.add_argument("--list", action="store_true", help="list the rules and end")
    parser.add_argument("--check", action="store_true", help="see that the table fits the code and end")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without any change first")
    args = parser.parse_args()
    chosen = [
        each
        for each in MUTATIONS
        if (args.only in each.rule or args.only in each.file) and (each.quick or not args.quick)
    ]
    if args.list:
        for each in chosen:
            print(f"{each.file}: {each.rule}")
        return 0
    if unfit := [problem for each in chosen for problem in _unfit(each)]:
        print("\n".join(unfit))
        return 2
    if args.check:
        return 0
    with tempfile.TemporaryDirectory(prefix="tonnage-mutations-") as folder:
        return _try_all(chosen, pathlib.Path(folder), max(1, args.jobs), args.trust)


def _unfit(mutation: Mutation) -> list[str]:
    """Return the part of a mutation that does not match the code any more."""
    problems = [f"{mutation.rule}: there is no {test}" for test in mutation.tests if not _file(test).exists()]
    if (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) != 1:
        problems.append(f"{mutation.rule}: {mutation.file} does not have, exactly once, what keeps it: mend the table")
    return problems


def _file(test: str) -> pathlib.Path:
    return ROOT / test.partition("::")[0]


def _try_all(chosen: Sequence[Mutation], folder: pathlib.Path, jobs: int, trust: bool) -> int:
    copies: queue.SimpleQueue[pathlib.Path] = queue.SimpleQueue()
    for number in range(jobs):
        copies.put(_copy(folder / str(number)))
    if not trust:
        print("The tests, with all rules in place ...", flush=True)
        first = copies.get()
        failed, _ = _test(first, sorted({test for each in chosen for test in each.tests}), len(chosen) * _PATIENCE)
        copies.put(first)
        if failed:
            print(f"fail without any change: {', '.join(sorted(failed))}")
            return 2
    survivors = 0
    width = max(len(each.rule) for each in chosen)

    def tried(mutation: Mutation) -> tuple[Mutation, Collection[str], float]:
        copy = copies.get()
        try:
            return mutation, *_try(mutation, copy)
        finally:
            copies.put(copy)

    with futures.ThreadPoolExecutor(jobs) as threads:
        for mutation, failed, seconds in threads.map(tried, chosen):
            survivors += not failed
            killer = ", ".join(sorted(failed)) if failed else "SURVIVED"
            print(f"{mutation.rule:<{width}}  {seconds:4.0f} s  {killer}", flush=True)
    print(f"{len(chosen)} rules, {survivors} survived")
    return 1 if survivors else 0


def _copy(to: pathlib.Path) -> pathlib.Path:
    """Copy the files that git has or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source = ROOT / name
        if name and (source.is_symlink() or source.exists()):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name, follow_symlinks=False)
    return to


def _try(mutation: Mutation, copy: pathlib.Path) -> tuple[Collection[str], float]:
    """Take a rule away in a copy; return the tests that notice, and how many seconds they took."""
    file = copy / mutation.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        return _test(copy, mutation.tests, _PATIENCE)
    finally:
        file.write_text(text, encoding="utf-8")


def _test(copy: pathlib.Path, tests: Sequence[str], patience: float) -> tuple[Collection[str], float]:
    """Run tests on a copy; return those that fail, up to the first, and how many seconds they took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not heavy", "-p", "no:cacheprovider", *tests]
    # The copy comes before what is installed, which leads to the tree itself.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        return {"(the tests hang)"}, time.monotonic() - began
    seconds = time.monotonic() - began
    if run.returncode in (0, _NO_TESTS):
        return (), seconds
    return set(_FAILED.findall(run.stdout)) or {f"(pytest ended with {run.returncode})"}, seconds


if __name__ == "__main__":
    sys.exit(main())
