# SPDX-License-Identifier: Apache-2.0
"""Series of the claims on the storage of clusters."""

import datetime

import pytest
from sqlalchemy import orm

from tests.unit.api.monitoring.ledger_pages import page_of, samples, world_with_volumes
from tests.unit.scheduler.world import World
from tonnage.extensions.kubernetes.api.csi_metrics import ClaimSeries
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.ledger import tables

GIB = 2**30


@pytest.fixture
def world() -> World:
    """A thin and a thick pool."""
    return world_with_volumes()


def test_claims_on_drivers_of_clusters_are_counted_until_they_end(world: World) -> None:
    def add(session: orm.Session) -> None:
        now = capacity_claims.now(session)
        for name in ("busy", "idle"):
            session.add(tables.CsiDriver(name=f"{name}.example.com", uid=name, version=1))
        session.flush()
        for holder, seconds in (("one", 60), ("two", 60), ("ended", -1)):
            session.add(
                tables.CsiClaim(
                    holder=holder,
                    volume="v",
                    node="n1",
                    driver_uid="busy",
                    storage_class="fast",
                    pool="p",
                    size=3 * GIB,
                    expires_at=now + datetime.timedelta(seconds=seconds),
                )
            )

    world.database.run(add)
    found = samples(page_of(world, series=[ClaimSeries(100)]))
    assert found["tonnage_csi_claims", "busy.example.com"] == 2
    assert found["tonnage_csi_claimed_bytes", "busy.example.com"] == 6 * GIB
    assert (
        found["tonnage_csi_claims", "idle.example.com"] == found["tonnage_csi_claimed_bytes", "idle.example.com"] == 0
    )
