# SPDX-License-Identifier: Apache-2.0
"""The routes of the history, and the forecasts that it gives to other extensions."""

from tests.unit.api.cluster import Client, Cluster, parts
from tests.unit.extensions import alone


def test_an_empty_history_has_no_forecasts(cluster: Cluster) -> None:
    client: Client = cluster.client(enabled_extensions=["history"])
    forecasts = client.simulate_get("/v3/capacity-overview/forecasts").json
    assert forecasts == {"count": 0, "forecasts": []}
    assert client.simulate_get("/v3/capacity-overview/coming-refusals").json == {"types": []}


def test_the_history_of_a_pool_needs_its_name(cluster: Cluster) -> None:
    client: Client = cluster.client(enabled_extensions=["history"])
    assert client.simulate_get("/v3/capacity-overview/history").status_code == 400


def test_it_shares_routes_and_forecasts_with_the_page_and_neither_twice() -> None:
    assert alone.paths("history") & alone.paths("page") == set()
    assert [part.pool_forecasts is not None for part in parts("page", "history")] == [False, False, True]
