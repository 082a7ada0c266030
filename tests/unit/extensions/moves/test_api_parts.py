# SPDX-License-Identifier: Apache-2.0
"""The REST API of the extension."""

from tests.unit.api.cluster import Cluster


def test_the_path_is_served_only_where_the_extension_is_enabled(cluster: Cluster) -> None:
    body = {"move_plan": {"goal": "fit", "arguments": {"size": 1}}}
    with_moves = cluster.client(enabled_extensions=["moves"])
    assert with_moves.at("POST", "/v3/move-plans", 72, json=body).status_code == 200
    assert cluster.client().at("POST", "/v3/move-plans", 72, json=body).status_code == 404
