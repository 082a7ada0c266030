# SPDX-License-Identifier: Apache-2.0
"""Ledgers that live as long as the worlds they are made for."""

import contextlib
import weakref

import sqlalchemy as sa

from tests.servers import ledger_schema
from tonnage.ledger.db import database


def in_memory(owner: object) -> sa.Engine:
    """Return the engine of an empty ledger in memory, whose connection is closed when nobody has its owner any longer.

    From Python 3.13 on, sqlite3 warns of forgotten connections. It is the connection alone that waits for this: the
    engine's listeners know the owner, who would stay for as long as the tests run, with all that was ever compiled.
    """
    engine = database.create_engine("sqlite://?check_same_thread=false")  # any thread may collect what is forgotten
    with contextlib.closing(engine.raw_connection()) as connection:
        driven = connection.driver_connection
        assert driven is not None
        weakref.finalize(owner, driven.close)
    ledger_schema.create(engine)
    return engine
