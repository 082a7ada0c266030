#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one decision takes: a request of a volume type with three extra specs, default filters and weigher.

Every second pool has what the type asks for. Each request is counted in the pool that it goes to, as it is in life, so
each decision finds something changed. With --peer the filter scheduler of Cinder decides the same requests among the
same pools in the same run::

    python bench/decisions.py --peer
    python bench/decisions.py --pools 10000 --json

Times are milliseconds; those of the processor are the ones that other work on the machine changes least. ``unchanged``
is a decision that finds nothing changed, ``first of its type`` one whose extra specs have not been looked at before.
The whole scheduler, with its ledger in memory, is asked one request at a time and 64 together, and over an in-process
message bus, for the processor time of everything that has a part in it.

Exit status: 0; 1 if a decision failed; 2 if there is no Cinder to be had.
"""

import sys
from collections.abc import Sequence

import command
import side_by_side
from side_by_side import Figures


def show(found: Sequence[Figures]) -> str:
    """Return the figures for people."""
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
    parts = ["Filters and weigher alone, processor milliseconds", side_by_side.table(heads, core)]
    peers = [
        [
            each["pools"],
            each["peer"]["decision_ms"]["cpu_median"],
            each["peer"]["decision_ms"]["p99"],
            side_by_side.ratio(each["peer"]["decision_ms"]["cpu_median"], each["decision_ms"]["cpu_median"]),
            side_by_side.ratio(each["peer"]["decision_ms"]["cpu_median"], each["unchanged_ms"]["cpu_median"]),
            each["peer"]["bytes_per_pool"],
        ]
        for each in found
        if "peer" in each
    ]
    if peers:
        heads = ["pools", "decision", "p99 (wall)", "times ours", "times ours unchanged", "bytes/pool"]
        parts += ["", "Cinder, processor milliseconds", side_by_side.table(heads, peers)]
    whole = [
        [each["pools"], *(each[key]["cpu_median"] for key in ("pipeline_ms", "pipeline_of_64_ms", "rpc_ms"))]
        for each in found
        if "rpc_ms" in each
    ]
    if whole:
        heads = ["pools", "one at a time", "64 together, each", "one over RPC"]
        parts += ["", "The whole scheduler, processor milliseconds", side_by_side.table(heads, whole)]
    return "\n".join(parts)


def main() -> int:
    """Measure and print."""
    try:
        return side_by_side.run("decisions", side_by_side.parser(__doc__).parse_args(), show)
    except command.Wrong as error:
        print(f"decisions: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
