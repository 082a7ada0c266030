# SPDX-License-Identifier: Apache-2.0
"""The commands of both daemons."""

from tests.functional.deployment import run_program


def test_the_shadow_shows_its_options() -> None:
    shown = run_program("tonnage-cinder-shadow", "--help")
    assert (shown.code, shown.error) == (0, "")
    assert "usage: tonnage-cinder-shadow" in shown.output


def test_the_scheduler_starts_its_own_module() -> None:
    assert run_program("tonnage-cinder-scheduler", "--help").error.startswith("tonnage-cinder-scheduler: ")
