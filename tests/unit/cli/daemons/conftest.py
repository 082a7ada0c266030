# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

import pathlib

import pytest

from tests.unit.cli.daemons.daemon_files import DaemonFiles


@pytest.fixture
def files(tmp_path: pathlib.Path) -> DaemonFiles:
    """The configuration file of a daemon, which is not written yet, without a ledger."""
    return DaemonFiles(tmp_path)
