# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

import pytest


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the API server, a thread of this process, and remember what it says, while the machine stands still."""
    monkeypatch.setattr("tonnage.k8s.cluster.cluster_reader._PATIENCE", 60.0)
    monkeypatch.setattr("tonnage.k8s.cluster.cluster_reader._REMEMBERED", 3600.0)
