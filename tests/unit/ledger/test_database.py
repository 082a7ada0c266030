# SPDX-License-Identifier: Apache-2.0
"""Opening the database that the configuration names."""

import os
import pathlib

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tonnage.ledger import database


def configured(url: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    database.register(conf)
    conf([], project="tonnage", default_config_files=[])
    conf.set_override("connection", url, group="database")
    return conf


def test_a_file_is_made_only_by_those_who_are_to_make_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = configured("sqlite:///./var/tonnage.sqlite")
    with pytest.raises(database.NoDatabase) as caught:
        database.connect(relative)
    assert caught.value.message == (
        f"there is no database ./var/tonnage.sqlite in {tmp_path}, where this was started (option [database] "
        "connection); if the option is right and this is the right place, run 'tonnage-manage db sync', which makes it"
    )
    with pytest.raises(database.NoDatabase, match=rf"^there is no database {tmp_path}/x \(option"):
        database.connect(configured(f"sqlite:///{tmp_path}/x"))
    assert os.listdir() == []
    made = database.connect(relative, create=True)
    with made.reading():
        assert os.path.exists("var/tonnage.sqlite")
    made.close()
    database.connect(relative).close()


def test_what_is_no_file_is_not_looked_for() -> None:
    for url in ("sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=true", "postgresql+psycopg://host/name"):
        assert database._sqlite_file(sa.make_url(url)) is None


def test_what_is_overridden_in_one_configuration_is_not_in_another() -> None:
    assert configured("sqlite://").database.connection == "sqlite://"
    other = cfg.ConfigOpts()
    database.register(other)
    other([], project="tonnage", default_config_files=[])
    assert other.database.connection is None
