# SPDX-License-Identifier: Apache-2.0
"""The parts of a scheduler that ask Nova."""

import pathlib
from types import SimpleNamespace
from typing import Any

import pytest
from oslo_config import cfg

from tests.servers.openstack import Cloud
from tonnage.capacity import errors
from tonnage.extensions.compute import scheduler_parts
from tonnage.extensions.compute.instance_hosts import InstanceHosts
from tonnage.scheduler.extension_parts import SchedulerParts


@pytest.fixture
def context() -> Any:
    return SimpleNamespace(database=None)


def configuration(folder: pathlib.Path, section: dict[str, str]) -> cfg.ConfigOpts:
    file = folder / "tonnage.conf"
    lines = ["[nova]", *(f"{key} = {value}" for key, value in section.items())] if section else []
    file.write_text("\n".join(["[DEFAULT]", *lines]))
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(file)])
    return conf


def test_without_an_account_requests_are_not_prepared(tmp_path: pathlib.Path, context: Any) -> None:
    assert scheduler_parts.build(configuration(tmp_path, {}), context) == SchedulerParts()


def test_with_an_account_the_hosts_of_instances_are_looked_up_until_the_end(
    tmp_path: pathlib.Path, context: Any
) -> None:
    with Cloud() as cloud:
        parts = scheduler_parts.build(configuration(tmp_path, cloud.options), context)
    [preparation] = parts.preparations
    assert isinstance(preparation, InstanceHosts)
    assert parts.closers == [preparation.stop]


def test_an_unusable_section_is_refused_before_the_start(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"section \[nova\]"):
        scheduler_parts.validate(configuration(tmp_path, {"auth_type": "sorcery"}))
    scheduler_parts.validate(configuration(tmp_path, {}))
