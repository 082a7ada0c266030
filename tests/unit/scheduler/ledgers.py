# SPDX-License-Identifier: Apache-2.0
"""Ledgers that live as long as the worlds they are made for, and changes of them while a decision is made."""

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.ledger.db import database
from tonnage.scheduler.decisions import resolution
from tonnage.scheduler.requests.request_spec import Lookup


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


def change_after_look_up(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[orm.Session, Lookup], Lookup | None]
) -> list[Lookup]:
    """Let something change between the next look-up of a decision and its booking.

    ``change`` gets the session and what was found, and may return other findings. Return a list that gets what this
    look-up and all later ones find.
    """
    look_up = resolution.read_references
    looks: list[Lookup] = []

    def look_and_change(session: orm.Session, items: Sequence[Any]) -> Lookup:
        found = look_up(session, items)
        looks.append(found)
        return (change(session, found) or found) if len(looks) == 1 else found

    monkeypatch.setattr(resolution, "read_references", look_and_change)
    return looks
