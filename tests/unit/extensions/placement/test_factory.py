# SPDX-License-Identifier: Apache-2.0
"""Objects for processes that count usage from Placement."""

import pathlib

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.placement import factory
from tonnage.extensions.placement.project_usage import PlacementUsage
from tonnage.ledger.db import database
from tonnage.quotas import options as quota_options
from tonnage.quotas.options import Settings

ACCOUNT = {"auth_type": "admin_token", "endpoint": "http://127.0.0.1:1", "token": "t"}


def read_config(folder: pathlib.Path, section: dict[str, str] | None, quota: str = "") -> cfg.ConfigOpts:
    file = folder / "tonnage.conf"
    lines = [] if section is None else ["[placement]", *(f"{key} = {value}" for key, value in section.items())]
    file.write_text("\n".join(["[quota]", quota, *lines]))
    conf = cfg.ConfigOpts()
    quota_options.register(conf)
    conf(["--config-file", str(file)])
    return conf


@pytest.mark.parametrize("source", ["usage_source = placement", "count_usage_from_placement = True"])
def test_counting_usage_from_placement_requires_an_account(tmp_path: pathlib.Path, source: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"section \[placement\] names no account"):
        factory.validate(read_config(tmp_path, None, source))
    factory.validate(read_config(tmp_path, ACCOUNT, source))
    factory.validate(read_config(tmp_path, None))


def test_usage_is_counted_in_the_ledger_by_default(tmp_path: pathlib.Path) -> None:
    assert not factory.is_enabled(read_config(tmp_path, ACCOUNT))
    assert factory.is_enabled(read_config(tmp_path, ACCOUNT, "usage_source = placement"))


def test_usage_from_placement_counts_volumes_in_pools_only(tmp_path: pathlib.Path) -> None:
    conf = read_config(tmp_path, ACCOUNT, "usage_source = placement")
    engine = database.create_engine("sqlite://")
    settings = factory.add_usage(conf, database.Database(engine), Settings(counter_lifetime=7.0))
    assert isinstance(settings.external_usage, PlacementUsage)
    assert (settings.placed_only, settings.counter_lifetime) == (True, 7.0)
    engine.dispose()
    with pytest.raises(errors.ConfigurationError, match=r"section \[placement\] names no account"):
        factory.add_usage(read_config(tmp_path, None), database.Database(engine), Settings())
