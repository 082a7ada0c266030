# SPDX-License-Identifier: Apache-2.0
"""The rule for claims without agents, on the real ledger with a modelled Cinder."""

import random

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.extensions.cinder.scheduler.cinder_model import POOLS, World
from tonnage.ledger import models

#: A run of the modelled Cinder with a ledger.
runs = given(seed=st.integers(0, 2**32))


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@runs
def test_no_pool_ever_holds_more_than_its_size(seed: int) -> None:
    World(random.Random(seed)).play(250)


@pytest.mark.heavy
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@runs
def test_in_long_runs_no_pool_ever_holds_more_than_its_size(seed: int) -> None:
    World(random.Random(seed)).play(500)


@pytest.mark.parametrize("seed", range(4))
def test_in_quiet_the_ledger_counts_what_the_rows_say(seed: int) -> None:
    world = World(random.Random(seed))
    world.play(300)
    world.settle()
    for pool in POOLS:
        # What a lost command or a failure leaves behind stays counted.
        unclear = any(row.pool == pool and row.status != "available" for row in world.rows.values())
        rows = sum(row.size_gb for row in world.rows.values() if row.pool == pool)
        with world.database.reading() as session:
            counted = sa.select(models.Pool.allocated_capacity_gb, models.Pool.in_flight_gb)
            allocated, in_flight = session.execute(counted.where(models.Pool.name == pool)).one()
        assert allocated >= rows
        assert unclear or (allocated, in_flight) == (rows, 0)
