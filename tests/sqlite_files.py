# SPDX-License-Identifier: Apache-2.0
"""SQLite databases of a test process: like the servers of the tests, they do not wait for the disk at each commit."""

import sqlite3
from typing import Any

from sqlalchemy import event, pool

_SET = "without syncs"


def leave_to_the_kernel() -> None:
    """Let commits to SQLite files reach the kernel only: they survive the end of the process, not of the machine."""

    @event.listens_for(pool.Pool, "checkout")
    def _leave(connection: Any, record: pool.ConnectionPoolEntry, proxy: pool.PoolProxiedConnection) -> None:
        # Tonnage sets this when it connects, so it is too early there.
        if isinstance(connection, sqlite3.Connection) and _SET not in record.info:
            connection.execute("PRAGMA synchronous = OFF").close()
            record.info[_SET] = True
