# SPDX-License-Identifier: Apache-2.0
"""The settings of a scheduler, from its configuration."""

import pathlib

import pytest
from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.rpc import options as rpc_options
from tonnage.scheduler.configuration import settings


def configuration(folder: pathlib.Path, text: str) -> cfg.ConfigOpts:
    file = folder / "tonnage.conf"
    file.write_text(f"[DEFAULT]\nhost = here\n{text}\n")
    conf = cfg.ConfigOpts()
    rpc_options.register(conf)
    settings.register(conf)
    conf([], project="tonnage", default_config_files=[str(file)])
    enabled_extensions.register_options(conf)
    return conf


def test_each_setting_has_the_value_of_its_option(tmp_path: pathlib.Path) -> None:
    conf = configuration(
        tmp_path,
        "storage_availability_zone = north\nmax_over_subscription_ratio = auto\nservice_down_time = 7\n"
        "scheduler_max_attempts = 5\nscheduler_batch_size = 9\nclaim_lease = 11\ndrain_concurrency = 13\n",
    )
    values = settings.from_conf(conf)
    assert (values.host, values.availability_zone, values.default_ratio) == ("here", "north", "auto")
    assert (values.service_down_time, values.max_attempts, values.batch_size) == (7, 5, 9)
    assert (values.claim_lease, values.drain_concurrency) == (11, 13)


@pytest.mark.parametrize("calculation", list(Calculation))
def test_rules_can_be_loaded_again_under_another_calculation(tmp_path: pathlib.Path, calculation: Calculation) -> None:
    conf = configuration(
        tmp_path,
        f"over_provisioning_calculation = {calculation.value}\nscheduler_default_filters = CapacityFilter\n"
        "scheduler_default_weighers = CapacityWeigher\n",
    )
    reloadable = settings.reloadable(conf)
    assert reloadable.calculation is settings.from_conf(conf).calculation is calculation
    assert [plugin.name for plugin in reloadable.filters.filters] == ["CapacityFilter"]
    assert [plugin.name for plugin in reloadable.weighers.weighers] == ["CapacityWeigher"]
    assert list(reloadable.changes) == []


@pytest.mark.parametrize("text", ["max_over_subscription_ratio = 0.5", "scheduler_default_filters = NoSuchFilter"])
def test_unusable_options_keep_a_scheduler_from_starting(tmp_path: pathlib.Path, text: str) -> None:
    with pytest.raises(errors.ConfigurationError):
        settings.validate(configuration(tmp_path, text))


def test_usable_options_are_valid(tmp_path: pathlib.Path) -> None:
    settings.validate(configuration(tmp_path, ""))
