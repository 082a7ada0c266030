# SPDX-License-Identifier: Apache-2.0
"""Access to a ledger that has to exist, with the current schema."""

import pathlib
from types import SimpleNamespace
from typing import Any

import pytest

from tests.servers import ledger_schema
from tonnage.capacity import errors
from tonnage.cli import ledger_access
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> Any:
    options = {option.dest: option.default for option in database_options.OPTIONS}
    options["connection"] = f"sqlite:///{tmp_path}/tonnage.sqlite"
    return SimpleNamespace(database=SimpleNamespace(**options), enabled_extensions=[])


def test_a_missing_database_is_not_created(conf: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"there is no database .* run 'tonnage-manage db sync'"):
        ledger_access.connect(conf)
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_tables_is_refused(conf: Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tonnage.sqlite").touch()
    with pytest.raises(errors.ConfigurationError, match=r"at revision none, .* run 'tonnage-manage db sync'"):
        ledger_access.connect(conf)


def test_a_current_ledger_is_opened(conf: Any) -> None:
    engine = database.create_engine(conf.database.connection)
    ledger_schema.create(engine)
    engine.dispose()
    ledger = ledger_access.connect(conf)
    with ledger.reading() as session:
        assert session.connection().exec_driver_sql("SELECT count(*) FROM volumes").scalar() == 0
    ledger.engine.dispose()
