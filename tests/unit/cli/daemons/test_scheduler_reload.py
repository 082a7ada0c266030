# SPDX-License-Identifier: Apache-2.0
"""The configuration of a scheduler, applied again from its files."""

import logging
import pathlib
from typing import Any

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli.daemons.scheduler_reload import ConfigReloader


class Scheduler:
    """A scheduler that takes each configuration, or refuses it with ``error``."""

    def __init__(self) -> None:
        self.taken: list[cfg.ConfigOpts] = []
        self.error: errors.TonnageError | None = None

    def change(self, conf: cfg.ConfigOpts) -> None:
        if self.error is not None:
            raise self.error
        self.taken.append(conf)


def read(file: pathlib.Path) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.IntOpt("speed", default=1, mutable=True), cfg.StrOpt("key", secret=True, mutable=True)])
    conf(["--config-file", str(file)], project="tonnage", default_config_dirs=[])
    return conf


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "tonnage.conf"
    file.write_text("[DEFAULT]\nspeed = 2\nkey = first\n", encoding="utf-8")
    return file


def test_a_new_configuration_is_applied_and_its_secrets_are_not_logged(
    file: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    conf = read(file)
    scheduler: Any = Scheduler()
    file.write_text("[DEFAULT]\nspeed = 3\nkey = second\n", encoding="utf-8")
    assert ConfigReloader(conf, lambda: read(file)).apply(scheduler)
    assert ([taken.speed for taken in scheduler.taken], conf.speed, conf.key) == ([3], 3, "second")
    assert "changed from [2] to [3]" in caplog.text
    assert "changed from [****] to [****]" in caplog.text
    assert "second" not in caplog.text


def test_a_configuration_that_the_scheduler_refuses_changes_nothing(
    file: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    conf = read(file)
    scheduler: Any = Scheduler()
    scheduler.error = errors.ConfigurationError("speed = 3: too fast")
    file.write_text("[DEFAULT]\nspeed = 3\n", encoding="utf-8")
    assert not ConfigReloader(conf, lambda: read(file)).apply(scheduler)
    assert conf.speed == 2
    assert "The configuration stays as it was: speed = 3: too fast" in caplog.text


def test_files_that_cannot_be_read_are_not_usable(file: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    reloader = ConfigReloader(read(file), lambda: read(file.with_name("absent")))
    assert not reloader.is_usable()
    assert "The configuration stays as it was: " in caplog.text
