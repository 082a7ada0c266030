# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

import pytest

from tests.unit.api.cluster import Client, Cluster


@pytest.fixture
def client(cluster: Cluster) -> Client:
    """A client with noauth of an application of its own, because the page's results are kept for some seconds."""
    return cluster.client()
