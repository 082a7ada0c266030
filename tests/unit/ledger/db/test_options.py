# SPDX-License-Identifier: Apache-2.0
"""The options of the ledger's database in several configurations of one process."""

import pytest
from oslo_config import cfg

from tonnage.ledger.db import options


def configuration() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    return conf


def test_an_override_in_one_configuration_does_not_affect_another() -> None:
    conf = configuration()
    conf.set_override("connection", "sqlite://", "database")
    assert conf.database.connection == "sqlite://"
    assert configuration().database.connection is None


def test_options_can_be_registered_again() -> None:
    conf = configuration()
    options.register(conf)
    [(group, listed)] = options.list_opts()
    assert group.name == "database"
    assert {option.dest for option in listed} == set(conf.database)


@pytest.mark.parametrize("name", ["max_pool_size", "pool_timeout", "sqlite_busy_timeout", "lock_timeout"])
def test_a_limit_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        configuration().set_override(name, 0, "database")
