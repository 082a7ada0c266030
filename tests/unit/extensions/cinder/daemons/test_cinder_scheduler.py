# SPDX-License-Identifier: Apache-2.0
"""``tonnage-cinder-scheduler`` where no Cinder is installed. With one, ``tests/cinder`` runs it."""

import importlib.util

import pytest

from tests.functional.deployment import run_program
from tonnage.extensions.cinder import releases
from tonnage.extensions.cinder.daemons import cinder_scheduler


def test_without_cinder_it_says_where_tonnage_has_to_be_installed() -> None:
    ended = run_program("tonnage-cinder-scheduler")
    assert ended.code == 1
    [line] = ended.error.splitlines()
    assert line.startswith("tonnage-cinder-scheduler: Cinder cannot be imported (No module named 'cinder'): ")
    assert line.endswith(
        f"install Tonnage in the environment of the cloud's own Cinder, which is one of {releases.TEXT}"
    )


@pytest.mark.parametrize("option", sorted(cinder_scheduler.OPTIONS))
def test_the_classes_that_it_names_to_cinder_exist(option: str) -> None:
    """Cinder imports them by these names, after all that this process can check."""
    module, _, name = cinder_scheduler.OPTIONS[option].rpartition(".")
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        assert f"\nclass {name}(" in file.read()
