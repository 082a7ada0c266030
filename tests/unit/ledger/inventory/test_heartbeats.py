# SPDX-License-Identifier: Apache-2.0
import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tonnage.ledger.db import database, schema
from tonnage.ledger.inventory import backends, heartbeats

LONG_AGO = "'2020-01-01 00:00:00'"


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    schema.sync(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


def test_a_scheduler_of_the_release_before_has_heard_agents_as_long_as_it_was_there(ledger: database.Database) -> None:
    """Though one of this release has been tried beside it, and given up."""
    ledger.run(heartbeats.heartbeat, heartbeats.Myself(binary=heartbeats.SCHEDULER, host="tried", listening=True))
    with ledger.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE services SET last_seen_at = {LONG_AGO}, last_listened_at = {LONG_AGO}"))
    with ledger.reading() as session:
        assert (backends.unheard(session, heartbeats.SCHEDULER) or 0) > 1e8
    ledger.run(heartbeats.heartbeat, heartbeats.Myself(binary=heartbeats.SCHEDULER, host="old"))
    with ledger.reading() as session:
        assert (backends.unheard(session, heartbeats.SCHEDULER) or 0) < 60
