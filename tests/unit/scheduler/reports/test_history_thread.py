# SPDX-License-Identifier: Apache-2.0
import pytest

from tonnage.capacity import errors
from tonnage.scheduler.reports.history_thread import HistoryThread


def test_a_database_that_is_away_leaves_a_hole(caplog: pytest.LogCaptureFixture) -> None:
    class Writer:
        def sample(self) -> bool:
            raise errors.Unavailable("the database is away")

    HistoryThread(Writer()).work()  # type: ignore[arg-type]
    assert "The history has a hole: the database is away" in caplog.text
