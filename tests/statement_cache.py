# SPDX-License-Identifier: Apache-2.0
"""One cache of compiled SQL statements for all engines of a test process.

SQLAlchemy compiles each statement once for each engine. A service has one engine, but nearly every test has its own,
and would spend more time on compiling the same statements again than on all else.
"""

from collections.abc import Hashable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, util

#: More than the statements of Tonnage in all dialects.
_STATEMENTS = 10_000


class StatementCache(util.LRUCache[Any, Any]):
    """Compiled statements. Dialects with the same properties share them.

    The first item of a key of SQLAlchemy is the dialect of one engine.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the compiled statement, or ``default``."""
        return super().get(_shared(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_shared(key), value)


def share_between_engines() -> None:
    """Make all engines of this process, also those made later, use one cache."""
    cache = StatementCache(_STATEMENTS)

    @event.listens_for(sa.Engine, "engine_connect")
    def _use(connection: sa.Connection) -> None:
        connection.execution_options(compiled_cache=cache)


def _shared(key: tuple[Any, ...]) -> tuple[Hashable, ...]:
    dialect, *statement = key
    return (type(dialect), dialect.server_version_info, dialect.paramstyle, *statement)
