# SPDX-License-Identifier: Apache-2.0
"""The option of the log of decisions."""

import pathlib

from tests.unit.extensions import alone
from tonnage.extensions.replay import options
from tonnage.rpc import options as rpc_options


def test_decisions_are_not_recorded_by_default(tmp_path: pathlib.Path) -> None:
    assert alone.conf_of(tmp_path, "replay").decision_log is None


def test_the_name_of_the_file_may_have_that_of_the_host(tmp_path: pathlib.Path) -> None:
    """Each scheduler needs a file of its own, and all may have the same configuration."""
    conf = alone.conf_of(tmp_path, "replay", "host = h1\ndecision_log = /log/decisions-${host}.jsonl\n")
    rpc_options.register(conf)
    assert conf.decision_log == "/log/decisions-h1.jsonl"


def test_the_sample_configuration_has_a_copy_of_the_options() -> None:
    """The generator of the sample sorts the list that it gets."""
    [(section, listed)] = options.list_opts()
    assert section == "DEFAULT"
    listed.clear()
    assert len(options.list_opts()[0][1]) == len(options.OPTIONS) == 1
