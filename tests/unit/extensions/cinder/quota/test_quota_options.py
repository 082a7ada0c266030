# SPDX-License-Identifier: Apache-2.0
"""The options of the quota driver stand beside those of the scheduler in one group."""

from oslo_config import cfg

from tonnage.extensions.cinder.quota import quota_options
from tonnage.extensions.cinder.scheduler import ledger_options


def test_both_parts_register_their_options_in_one_group() -> None:
    conf = cfg.ConfigOpts()
    ledger_options.register(conf)
    quota_options.register(conf)
    conf([])
    assert conf.tonnage.quota_reservation_lifetime == 60.0
    assert conf.tonnage.probe_interval == 10.0
    [(group, options)] = quota_options.list_opts()
    assert (group.name, [option.name for option in options]) == ("tonnage", ["quota_reservation_lifetime"])
