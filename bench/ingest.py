#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What reports take: so many pools reported anew by ten backends, in each of which the free space is another one.

With --peer Cinder's host manager takes in the same reports in the same run, and applies them, which it does again for
each decision::

    python bench/ingest.py --peer
    python bench/ingest.py --pools 10000 --json

Times are processor milliseconds: of the validation and the columns alone, where all pools are new, where the figures
of all have changed, and where they are the same again; of opening the reports, which travel packed, right before that;
of the first decision after a report; of the whole scheduler, which writes them to its ledger (SQLite in memory), how
much of that is the ledger's part, and how much of this are SQL statements; of the whole scheduler where one pool of
each backend has changed; and of get_pools with the factors of all pools: alone, as plain values for the message bus,
and as the JSON that this sends.

Exit status: 0; 1 if something failed; 2 if there is no Cinder to be had.
"""

import sys
from collections.abc import Sequence

import command
import side_by_side
from side_by_side import Figures


def show(found: Sequence[Figures]) -> str:
    """Return the figures for people."""
    cases = ("first_ms", "changed_ms", "same_ms", "opening_ms", "after_ms")
    alone = [[each["pools"], *(each[case]["cpu_median"] for case in cases), each["bytes_per_pool"]] for each in found]
    heads = ["pools", "all new", "all changed", "none changed", "opening them", "first decision after", "bytes/pool"]
    parts = ["Validation and columns alone, processor milliseconds", side_by_side.table(heads, alone)]
    whole = [
        [
            each["pools"],
            each["whole_ms"]["cpu_median"],
            each["whole_of_it_ledger_ms"],
            each["whole_of_it_sql_ms"],
            each["whole_unchanged_ms"]["cpu_median"],
            *(each[f"get_pools{more}_ms"]["cpu_median"] for more in ("", "_packed", "_json")),
            each["whole_bytes_per_pool"],
        ]
        for each in found
        if "whole_ms" in each
    ]
    if whole:
        heads = ["pools", "all changed", "of it ledger", "of it SQL", "one of each backend"]
        heads += ["get_pools", "packed", "as JSON", "bytes/pool"]
        parts += ["", "The whole scheduler, processor milliseconds", side_by_side.table(heads, whole)]
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
