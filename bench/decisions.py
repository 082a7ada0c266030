#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of one decision: a request of a volume type with three extra specs, default filters and weigher.

Every second pool matches the type. Each request is counted in its pool, as in production, so each decision has a
changed pool. With --peer Cinder's filter scheduler decides the same requests with the same pools in the same run::

    python bench/decisions.py --peer
    python bench/decisions.py --pools 10000 --json

Times are milliseconds; processor times depend least on other work on the machine. ``unchanged`` is a decision without
a changed pool, ``first of its type`` the first decision about its extra specs. The whole scheduler, with its ledger in
memory, gets one request at a time, 64 together, and requests over an in-process message bus. Its figures are the
processor time of all threads that take part.

Exit status: 0; 1 if a decision failed; 2 if Cinder is requested and not available.
"""

import sys
from collections.abc import Sequence

import command
import comparison_runner
from comparison_runner import Figures


def show(found: Sequence[Figures]) -> str:
    """Return the figures as tables."""
    heads = ["pools", "decision", "p99 (wall)", "unchanged", "first of its type", "decisions/s", "bytes/pool"]
    core = [
        [
            each["pools"],
            each["decision_ms"]["cpu_median"],
            each["decision_ms"]["p99"],
            each["unchanged_ms"]["cpu_median"],
            each["first_of_its_type_ms"],
            each["decisions_per_s"],
            each["bytes_per_pool"],
        ]
        for each in found
    ]
    parts = ["Filters and weigher alone, processor milliseconds", comparison_runner.table(heads, core)]
    peers = [
        [
            each["pools"],
            each["peer"]["decision_ms"]["cpu_median"],
            each["peer"]["decision_ms"]["p99"],
            comparison_runner.ratio(each["peer"]["decision_ms"]["cpu_median"], each["decision_ms"]["cpu_median"]),
            comparison_runner.ratio(each["peer"]["decision_ms"]["cpu_median"], each["unchanged_ms"]["cpu_median"]),
            each["peer"]["bytes_per_pool"],
        ]
        for each in found
        if "peer" in each
    ]
    if peers:
        heads = ["pools", "decision", "p99 (wall)", "times Tonnage", "times, unchanged", "bytes/pool"]
        parts += ["", "Cinder, processor milliseconds", comparison_runner.table(heads, peers)]
    whole = [
        [each["pools"], *(each[key]["cpu_median"] for key in ("pipeline_ms", "pipeline_of_64_ms", "rpc_ms"))]
        for each in found
        if "rpc_ms" in each
    ]
    if whole:
        heads = ["pools", "one at a time", "64 together, each", "one over RPC"]
        parts += ["", "The whole scheduler, processor milliseconds", comparison_runner.table(heads, whole)]
    return "\n".join(parts)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    try:
        return comparison_runner.run("decisions", comparison_runner.parser(__doc__).parse_args(words), show)
    except command.BenchmarkError as error:
        print(f"decisions: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
