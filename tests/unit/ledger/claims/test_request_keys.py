# SPDX-License-Identifier: Apache-2.0
"""Keys of requests, on each database."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.ledger.claims import request_keys
from tonnage.ledger.db import database
from tonnage.ledger.models import claim_verbs

KEY = request_keys.Key("request", "volume", claim_verbs.CREATE, {"claim_id": "first"})
LATER = replace(KEY, answer={"claim_id": "second"})


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[database.Database]:
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    found = database.Database(engine)
    yield found
    found.close()


def test_a_known_key_is_not_inserted(ledger: database.Database) -> None:
    assert ledger.run(request_keys.insert_unless_known, KEY) is None
    assert ledger.run(request_keys.insert_unless_known, LATER) == KEY
    assert ledger.run(request_keys.insert_unless_known, replace(LATER, request_id="other")) is None


def test_a_key_waits_for_the_transaction_that_inserts_the_same_one(ledger: database.Database) -> None:
    with ThreadPoolExecutor() as threads:

        def first(session: orm.Session) -> Future[request_keys.Key | None]:
            assert request_keys.insert_unless_known(session, KEY) is None
            return threads.submit(ledger.run, request_keys.insert_unless_known, LATER)

        assert ledger.run(first).result() == KEY
