# SPDX-License-Identifier: Apache-2.0
"""The SQLite databases of tests do not wait for the disk."""

import pathlib

from tonnage.ledger.db import database

_OFF = 0


def test_commits_do_not_wait_for_the_disk(tmp_path: pathlib.Path) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    for _ in range(2):
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == _OFF
    engine.dispose()
