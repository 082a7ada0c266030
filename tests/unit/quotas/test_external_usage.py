# SPDX-License-Identifier: Apache-2.0
"""A ledger whose quotas count its own volumes alone."""

from dataclasses import replace

import pytest

from tests.unit.quotas.test_reservations import GIGABYTES, PROJECT, Game, limit
from tests.unit.scheduler.world import StoragePool, World
from tonnage.quotas import options, reservations
from tonnage.quotas.external_usage import NO_EXTERNAL_USAGE, ExternalUsage, NoExternalUsage
from tonnage.quotas.limits import Scope
from tonnage.quotas.quota_check import Demand, Usage

#: The source that nothing else is told from, and another of the same kind.
SOURCES: list[ExternalUsage] = [NO_EXTERNAL_USAGE, NoExternalUsage()]


@pytest.fixture
def world() -> World:
    """A project that may have 10 GiB, in a pool with room for more."""
    world = World({"p0": StoragePool(100, 2.0, thin=True, thick=False)}).started()
    limit(world, PROJECT, {GIGABYTES: 10})
    return world


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("lifetime", [0.0, 60.0])
def test_a_project_may_use_its_whole_limit(world: World, source: ExternalUsage, lifetime: float) -> None:
    world.placer.quotas = options.Settings({}, lifetime, external_usage=source)
    source.read(["demo"])
    assert [Game.has_quota(answer) for answer in world.create(10, 1)] == [True, False]


@pytest.mark.parametrize("source", SOURCES)
def test_usage_is_that_of_the_volumes(world: World, source: ExternalUsage) -> None:
    world.made(4)
    settings = replace(options.Settings({}, 60.0), external_usage=source)
    with world.database.reading() as session:
        preview = reservations.preview(session, settings, [Demand(project_id="demo", user_id="", takes=Usage(1, 1))])
    assert preview.used[Scope("demo")] == Usage(1, 4)


@pytest.mark.parametrize("mend", [False, True])
def test_there_are_no_records_to_compare(mend: bool) -> None:
    """``tonnage-manage quota check`` then shows the counters alone."""
    source: ExternalUsage = NO_EXTERNAL_USAGE
    assert source.check_records(None, mend=mend) is None
