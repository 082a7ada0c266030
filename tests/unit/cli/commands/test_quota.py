# SPDX-License-Identifier: Apache-2.0
"""Tests of the output and the exit statuses of ``tonnage-manage quota``."""

import json
import pathlib

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.unit.cli import command_runs
from tests.unit.quotas.test_reservations import GIGABYTES, PROJECT, limit
from tests.unit.scheduler.world import StoragePool, World
from tonnage import enabled_extensions
from tonnage.cli import manage
from tonnage.ledger import models
from tonnage.ledger.db import database, schema
from tonnage.ledger.db import options as database_options
from tonnage.quotas import options as quota_options


def run(line: str, url: str) -> int:
    conf = cfg.ConfigOpts()
    enabled_extensions.register(conf)
    quota_options.register(conf)
    database_options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    conf.set_override("connection", url, "database")
    conf.set_override("enabled_extensions", [])
    return command_runs.run(manage.program(), line.split(), conf)


def test_exit_statuses_of_check_and_sync(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/tonnage.sqlite"
    engine = database.create_engine(url)
    schema.sync(engine, {})
    world = World({"p0": StoragePool(100, 2.0, thin=True, thick=False)}, engine=engine).started()
    limit(world, PROJECT, {GIGABYTES: 50})
    world.create(5, 7)
    assert run("quota check", url) == 0
    assert capsys.readouterr().out == "1 project(s) with counters checked: no counter is below the sum of the volumes\n"
    with engine.begin() as connection:
        connection.execute(sa.update(models.QuotaUsage).values(gigabytes=4))
    assert run("quota check", url) == 3
    assert "1 counter(s) wrong; 'tonnage-manage quota sync' mends them" in capsys.readouterr().out
    assert run("quota check --project other", url) == 0
    capsys.readouterr()
    assert run("quota check --json", url) == 3
    shown = json.loads(capsys.readouterr().out)
    assert shown["clean"] is False
    assert shown["findings"] == [
        {
            "cause": "behind",
            "project": "demo",
            "user": None,
            "volume_type": None,
            "resource": "gigabytes",
            "counter": 4,
            "found": 12,
        }
    ]
    assert run("quota sync", url) == 4
    assert run("quota sync", url) == 0
    assert run("quota check", url) == 0
    engine.dispose()
