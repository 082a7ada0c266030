# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder."""

import pytest

from tests.unit.api.cluster import Client, Cluster
from tests.unit.api.conftest import cluster, member, project  # noqa: F401
from tonnage.extensions.page.shared_results import Lifetimes


@pytest.fixture(scope="package")
def client(cluster: Cluster) -> Client:  # noqa: F811
    """A client with noauth of an application that computes the page's results anew for each request."""
    return cluster.client(lifetimes=Lifetimes(overview=0.0, forecasts=0.0, pools_of_type=0.0, ledger_check=0.0))
