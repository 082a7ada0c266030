# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: a cloud that answers at an address, a database, and commands on both."""

import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from oslo_config import cfg

from tests.servers import ledger_schema
from tests.unit.cli import command_runs
from tests.unit.extensions.relocation.cloud_api import A, B, C, CloudApi, served
from tonnage import enabled_extensions
from tonnage.cli import tonnage
from tonnage.extensions.moves import options as move_options
from tonnage.extensions.relocation import relocation_options
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options
from tonnage.scheduler.configuration import settings

Run = Callable[..., tuple[int, str]]


@dataclass
class Served:
    """A cloud that is served at the ``url``, and the commands on it and on a database."""

    api: CloudApi
    url: str
    conf: cfg.ConfigOpts
    capsys: pytest.CaptureFixture[str]

    def run(self, line: str) -> tuple[int, str]:
        """Run a command of tonnage, and return its exit status and its output."""
        return command_runs.run(tonnage.program(), line.split(), self.conf), self.capsys.readouterr().out


@pytest.fixture
def cloud(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Served]:
    """A cloud of three backends, with the account in the environment."""
    conf = cfg.ConfigOpts()
    settings.register(conf)
    conf.register_opts(database_options.OPTIONS, "database")
    for group, options in (*move_options.list_opts(), *relocation_options.list_opts()):
        conf.register_opts(options, group.name)
    conf([], default_config_files=[], default_config_dirs=[])
    url = f"sqlite:///{tmp_path}/tonnage.sqlite"
    conf.set_override("connection", url, "database")
    conf.set_override("poll_interval", 0.1, "relocation")
    conf.set_override(enabled_extensions.OPTION.name, ["moves", "relocation"])
    engine = database.create_engine(url)
    ledger_schema.create(engine)
    engine.dispose()
    api = CloudApi({A: 100, B: 100, C: 50})
    with served(api) as endpoint:
        for name in ("OS_CLOUD", "OS_CLIENT_CONFIG_FILE"):
            monkeypatch.delenv(name, raising=False)
        # No clouds.yaml of this machine.
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("OS_AUTH_TYPE", "admin_token")
        monkeypatch.setenv("OS_ENDPOINT", endpoint)
        monkeypatch.setenv("OS_TOKEN", "secret")
        yield Served(api, endpoint, conf, capsys)


@pytest.fixture
def moving(cloud: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """The same cloud, where a minute passes with each request."""
    answer = cloud.api.answer

    def answer_later(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        cloud.api.pass_time(65)
        return answer(method, path, body)

    monkeypatch.setattr(cloud.api, "answer", answer_later)
    return cloud
