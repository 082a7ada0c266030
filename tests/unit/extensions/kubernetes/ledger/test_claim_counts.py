# SPDX-License-Identifier: Apache-2.0
"""Counts of the claims on the storage of clusters."""

import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.extensions.kubernetes.ledger import claim_counts, tables
from tonnage.extensions.kubernetes.ledger.claim_counts import ClaimCount
from tonnage.ledger import models
from tonnage.ledger.db import database


def test_claims_count_by_driver_until_they_expire() -> None:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    uids = [f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2)]
    with orm.Session(engine) as session:
        session.add_all(tables.CsiDriver(uid=uid, name=name) for uid, name in zip(uids, ("fast", "idle"), strict=True))
        session.flush()
        now = session.execute(sa.select(models.utcnow())).scalar_one()
        session.add_all(
            tables.CsiClaim(
                holder=f"pod{number}",
                volume="data",
                node="n1",
                driver_uid=uids[0],
                storage_class="fast",
                pool="p",
                size=size,
                expires_at=now + datetime.timedelta(minutes=minutes),
            )
            for number, (size, minutes) in enumerate(((5, 9), (2**40, 9), (7, -1)))
        )
        session.flush()
        # A driver without claims goes down to 0 in the metrics.
        assert claim_counts.by_driver(session) == {"fast": ClaimCount(2, 2**40 + 5), "idle": ClaimCount(0, 0)}
    engine.dispose()
