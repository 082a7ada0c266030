# SPDX-License-Identifier: Apache-2.0
import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.quotas import options
from tonnage.quotas.limits import Resource


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


def test_counters_are_believed_for_a_while_or_not_at_all() -> None:
    assert options.from_conf(configured()).counters_last > 0
    assert options.from_conf(configured(usage_source="ledger")).counters_last == 0


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"usage_source": "placement"}, "usage_source = placement"),
        ({"count_usage_from_placement": True}, "count_usage_from_placement = True"),
    ],
)
def test_a_source_that_is_not_there_is_refused(values: dict[str, object], named: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=named):
        options.from_conf(configured(**values))
