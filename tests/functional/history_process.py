# SPDX-License-Identifier: Apache-2.0
"""A program that writes samples of the history by a clock of its own: ``python history_process.py URL CLOCK``.

The clock shows ten minutes more each second, so a sample is due each second. The file CLOCK has the seconds since 1970
at which it began, and the seconds by which it was set later.
"""

import datetime
import pathlib
import sys
import time

from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.extensions.history.history_writer import INTERVAL, HistoryWriter
from tonnage.ledger.db import database

START = datetime.datetime.fromisoformat("2026-03-01 00:05:00")


def clock_of(file: pathlib.Path) -> datetime.datetime:
    """Return the time of the clock."""
    began, later = map(float, file.read_text(encoding="utf-8").split())
    return START + datetime.timedelta(seconds=(time.time() - began) * INTERVAL + later)


def main() -> None:
    """Write samples until the process is killed."""
    url, file = sys.argv[1], pathlib.Path(sys.argv[2])

    def clock(session: orm.Session) -> datetime.datetime:
        return clock_of(file)

    writer = HistoryWriter(database.Database(database.create_engine(url)), 1e9, clock)
    while True:
        try:
            writer.sample()
        except errors.Unavailable:
            # Another one has the lock of SQLite.
            continue
        time.sleep(0.02)


if __name__ == "__main__":
    main()
