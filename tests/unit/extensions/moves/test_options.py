# SPDX-License-Identifier: Apache-2.0
"""The options of plans that are carried out."""

import dataclasses

from oslo_config import cfg

from tonnage.extensions.moves import options
from tonnage.extensions.moves.records.plan_limits import Limits


def test_each_limit_has_an_option_with_its_default() -> None:
    conf = cfg.ConfigOpts()
    for group, section_options in options.list_opts():
        conf.register_opts(section_options, group)
    conf([])
    assert {name: conf.moves[name] for name in dataclasses.asdict(Limits())} == dataclasses.asdict(Limits())
