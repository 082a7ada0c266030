#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of reports: ten backends report all pools, each pool with a new free capacity.

With --peer Cinder's host manager receives the same reports in the same run and applies them, which it repeats for each
decision::

    python bench/ingest.py --peer
    python bench/ingest.py --pools 10000 --json

Times are processor milliseconds of:

* validation and columns alone, with new pools, with changed figures of all pools, and with unchanged figures
* the decoding of the packed reports before that
* the first decision after a report
* the whole scheduler, which writes the reports to its ledger (SQLite in memory); of it the ledger's part, and of this
  the SQL statements
* the whole scheduler if one pool of each backend has changed
* get_pools with the factors of all pools: alone, with the conversion to plain values for the message bus, and with the
  JSON encoding

Exit status: 0; 1 after an error; 2 if Cinder is requested and not available.
"""

import sys
from collections.abc import Sequence

import command
import comparison_runner
from comparison_runner import Figures


def show(found: Sequence[Figures]) -> str:
    """Return the figures as tables."""
    cases = ("first_ms", "changed_ms", "same_ms", "opening_ms", "after_ms")
    alone = [[each["pools"], *(each[case]["cpu_median"] for case in cases), each["bytes_per_pool"]] for each in found]
    heads = ["pools", "all new", "all changed", "none changed", "opening them", "first decision after", "bytes/pool"]
    parts = ["Validation and columns alone, processor milliseconds", comparison_runner.table(heads, alone)]
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
        parts += ["", "The whole scheduler, processor milliseconds", comparison_runner.table(heads, whole)]
    peers = [
        [
            each["pools"],
            each["peer"]["changed_ms"]["cpu_median"],
            each["peer"]["unchanged_ms"]["cpu_median"],
            comparison_runner.ratio(each["peer"]["changed_ms"]["cpu_median"], each["changed_ms"]["cpu_median"]),
            each["peer"]["bytes_per_pool"],
        ]
        for each in found
        if "peer" in each
    ]
    if peers:
        heads = ["pools", "all changed", "none changed", "times Tonnage (changed)", "bytes/pool"]
        parts += ["", "Cinder, processor milliseconds", comparison_runner.table(heads, peers)]
    return "\n".join(parts)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    try:
        return comparison_runner.run("reports", comparison_runner.parser(__doc__).parse_args(words), show)
    except command.BenchmarkError as error:
        print(f"ingest: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
