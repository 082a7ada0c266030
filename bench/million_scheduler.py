#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""``tonnage-scheduler`` that writes the time of each decision and the size of each report to a file.

The file is the first argument; the others are the daemon's own. A line is a kind, the time on the monotonic clock, and
a number: ``decision`` and its seconds, or ``report`` and the number of changed pools that were written to the ledger.
"""

import os
import sys
import time
from collections.abc import Sequence

from sqlalchemy import orm


def main() -> object:
    """Run the daemon."""
    from tonnage.capacity.decision import Decision
    from tonnage.capacity.pools.pool_table import PoolTable
    from tonnage.capacity.request import Request
    from tonnage.cli import start
    from tonnage.ledger.inventory import reports
    from tonnage.scheduler.requests.pool_selection import Rules

    file = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(kind: str, value: float) -> None:
        os.write(file, f"{kind} {time.monotonic():.6f} {value:.7f}\n".encode())

    choose, apply = Rules.choose, reports.apply

    def timed_choose(rules: Rules, pools: PoolTable, request: Request) -> Decision:
        began = time.perf_counter()
        decision = choose(rules, pools, request)
        write("decision", time.perf_counter() - began)
        return decision

    def counted_apply(session: orm.Session, messages: Sequence[reports.Report]) -> list[reports.Applied | None]:
        results = apply(session, messages)
        write("report", sum(len(message.figures) for message, done in zip(messages, results, strict=True) if done))
        return results

    Rules.choose = timed_choose  # type: ignore[method-assign]
    reports.apply = counted_apply
    return start.scheduler()


if __name__ == "__main__":
    sys.exit(main())  # type: ignore[arg-type]
