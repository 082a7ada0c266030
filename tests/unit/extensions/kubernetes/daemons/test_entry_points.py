# SPDX-License-Identifier: Apache-2.0
"""The command ``tonnage-publisher``."""

from tests.functional.deployment import run_program


def test_the_command_shows_its_options() -> None:
    shown = run_program("tonnage-publisher", "--help")
    assert (shown.code, shown.error) == (0, "")
    assert "usage: tonnage-publisher" in shown.output
    assert "--config-file" in shown.output
