# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the Kubernetes tests."""

import pytest


@pytest.fixture(autouse=True)
def _long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend timeouts and caching: the API server is a thread of this process, and the machine may stall."""
    monkeypatch.setattr("tonnage.k8s.cluster.cluster_reader._TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr("tonnage.k8s.cluster.cluster_reader._CACHE_SECONDS", 3600.0)
