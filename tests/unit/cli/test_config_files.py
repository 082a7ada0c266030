# SPDX-License-Identifier: Apache-2.0
"""Tests of the options that name configuration files."""

from tonnage.cli import config_files


def test_configuration_files_can_be_named_after_a_command() -> None:
    given = ["explain", "3", "--config-file", "a", "--json", "--config-file=b", "--config-dir", "c"]
    assert config_files.first(given, "p") == [
        *("--config-file", "a", "--config-file", "b", "--config-dir", "c"),
        *("explain", "3", "--json"),
    ]
