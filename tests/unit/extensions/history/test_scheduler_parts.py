# SPDX-License-Identifier: Apache-2.0
"""The parts of a scheduler that write the history."""

from collections.abc import Mapping

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tonnage.extensions.history import scheduler_parts, tables
from tonnage.extensions.history.history_thread import HistoryThread
from tonnage.ledger.db.database import Database
from tonnage.scheduler.extension_parts import PartsBuilder, SchedulerContext, SchedulerParts
from tonnage.scheduler.manager import SchedulerManager


@pytest.fixture
def built() -> list[SchedulerParts]:
    return []


@pytest.fixture
def builders(built: list[SchedulerParts]) -> Mapping[str, PartsBuilder]:
    def build(context: SchedulerContext) -> SchedulerParts:
        built.append(scheduler_parts.build(cfg.ConfigOpts(), context))
        return built[-1]

    return {"history": build}


def test_a_scheduler_writes_the_history(core: SchedulerManager, built: list[SchedulerParts], ledger: Database) -> None:
    [thread] = built[0].background
    assert isinstance(thread, HistoryThread)
    thread.work()
    with ledger.reading() as session:
        # The scheduler has begun with a sample, and the next one is not due yet.
        assert session.scalars(sa.select(tables.HistoryTurn.number)).all() == [1]


def test_rows_that_are_too_old_are_purged_in_parts(
    core: SchedulerManager, built: list[SchedulerParts], ledger: Database
) -> None:
    # There are none yet.
    assert [ledger.run(purge) for purge in built[0].purges] == [0, 0]
