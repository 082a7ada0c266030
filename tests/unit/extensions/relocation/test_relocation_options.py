# SPDX-License-Identifier: Apache-2.0
"""The options of the extension."""

from oslo_config import cfg

from tonnage.extensions.relocation import relocation_options


def test_the_defaults_are_those_of_cinder() -> None:
    conf = cfg.ConfigOpts()
    for group, options in relocation_options.list_opts():
        conf.register_opts(options, group.name)
    conf([])
    assert (conf.relocation.report_interval, conf.relocation.poll_interval) == (60.0, 5.0)
