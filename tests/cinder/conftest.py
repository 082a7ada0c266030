# SPDX-License-Identifier: Apache-2.0
"""Tests beside a real Cinder. They run with ``-m cinder`` only."""

import pathlib

import pytest

_HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark these tests, and deselect them unless they are requested."""
    here = [item for item in items if item.path.is_relative_to(_HERE)]
    for item in here:
        item.add_marker(pytest.mark.cinder)
    if "cinder" in config.option.markexpr:
        return
    items[:] = [item for item in items if not item.path.is_relative_to(_HERE)]
    config.hook.pytest_deselected(items=here)
