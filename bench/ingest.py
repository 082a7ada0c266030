#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What reports take: so many pools reported anew by ten backends, in each of which the free space is another one.

With --peer Cinder's host manager takes in the same reports in the same run, and applies them, which it does again for
each decision::

    python bench/ingest.py --peer
    python bench/ingest.py --pools 10000 --json

Times are processor milliseconds: of the validation and the columns alone; of the first decision after a report; of the
whole scheduler, which writes them to its ledger (SQLite in memory), and how much of that are SQL statements; of the
whole scheduler where one pool of each backend has changed; and of get_pools with the factors of all pools.

Exit status: 0; 1 if something failed; 2 if there is no Cinder to be had.
"""

import sys
from collections.abc import Sequence

import command
import side_by_side
from side_by_side import Figures


def show(found: Sequence[Figures]) -> str:
    """Return the figures for people."""
    heads = ["pools", "validation and columns", "first decision after", "whole", "of it SQL", "whole, unchanged"]
    heads += ["get_pools", "bytes/pool", "whole"]
    mine = [
        [
            each["pools"],
            each["changed_ms"]["cpu_median"],
            each["after_ms"]["cpu_median"],
            each.get("whole_ms", {}).get("cpu_median"),
            each.get("whole_of_it_sql_ms"),
            each.get("whole_unchanged_ms", {}).get("cpu_median"),
            each.get("get_pools_ms", {}).get("cpu_median"),
            each["bytes_per_pool"],
            each.get("whole_bytes_per_pool"),
        ]
        for each in found
    ]
    parts = ["Tonnage, processor milliseconds", side_by_side.table(heads, mine)]
    peers = [
        [
            each["pools"],
            each["peer"]["changed_ms"]["cpu_median"],
            each["peer"]["unchanged_ms"]["cpu_median"],
            side_by_side.ratio(each["peer"]["changed_ms"]["cpu_median"], each["changed_ms"]["cpu_median"]),
            each["peer"]["bytes_per_pool"],
        ]
        for each in found
        if "peer" in each
    ]
    if peers:
        heads = ["pools", "all changed", "none changed", "times ours (changed)", "bytes/pool"]
        parts += ["", "Cinder, processor milliseconds", side_by_side.table(heads, peers)]
    return "\n".join(parts)


def main() -> int:
    """Measure and print."""
    try:
        return side_by_side.run("reports", side_by_side.parser(__doc__).parse_args(), show)
    except command.Wrong as error:
        print(f"ingest: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
