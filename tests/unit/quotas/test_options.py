# SPDX-License-Identifier: Apache-2.0
"""Options of quotas."""

import pathlib

import pytest
from oslo_config import cfg

from tonnage.quotas import options
from tonnage.quotas.limits import Resource
from tonnage.quotas.options import Source


def configured(**values: object) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([])
    for name, value in values.items():
        conf.set_override(name, value, "quota" if name in ("usage_source", "count_usage_from_placement") else None)
    return conf


def test_defaults_are_cinders() -> None:
    assert options.from_conf(configured()).defaults == {
        Resource.VOLUMES: 10,
        Resource.GIGABYTES: 1000,
        Resource.SNAPSHOTS: 10,
        Resource.BACKUPS: 10,
        Resource.BACKUP_GIGABYTES: 1000,
        Resource.GROUPS: 10,
        Resource.PER_VOLUME_GIGABYTES: -1,
    }


def test_limits_change_when_the_configuration_is_reloaded(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tonnage.conf"
    file.write_text("[DEFAULT]\nquota_volumes = 5\n")
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], default_config_files=[str(file)], default_config_dirs=[])
    defaults = options.from_conf(conf).defaults
    assert (defaults[Resource.VOLUMES], len(defaults)) == (5, 7)
    file.write_text("[DEFAULT]\nquota_volumes = 6\nper_volume_size_limit = 2\n[quota]\nusage_source = ledger\n")
    conf.mutate_config_files()
    assert (defaults[Resource.VOLUMES], defaults[Resource.PER_VOLUME_GIGABYTES]) == (6, 2)
    file.write_text("[DEFAULT]\nquota_volumes = -2\n")
    with pytest.raises(cfg.Error):
        conf.mutate_config_files()
    assert defaults[Resource.VOLUMES] == 6


def test_counters_are_trusted_for_a_while_or_not_at_all() -> None:
    assert options.from_conf(configured()).counter_lifetime > 0
    assert options.from_conf(configured(usage_source="ledger")).counter_lifetime == 0


@pytest.mark.parametrize(
    ("values", "source"),
    [
        ({}, Source.COUNTERS),
        ({"usage_source": "ledger"}, Source.LEDGER),
        ({"usage_source": "placement"}, Source.PLACEMENT),
        ({"count_usage_from_placement": True}, Source.PLACEMENT),
    ],
)
def test_placement_can_be_chosen_by_two_options(values: dict[str, object], source: Source) -> None:
    conf = configured(**values)
    assert options.source(conf) is source
